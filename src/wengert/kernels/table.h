// The table of a program: where each of its arrays lies. Arrays come as Python has them, and are looked at as NumPy's C
// interface says: first what every object begins with, `head` bytes, then the address of the elements.
#pragma once
#include <stddef.h>

extern int wg_error;

// Puts the addresses of arrays into a table: at these places, or where there are none one after the other.
void wg_place(void **io, const long *places, char *const *arrays, long count, long head)
{
    for (long i = 0; i < count; i++) io[places ? places[i] : i] = *(void **)(arrays[i] + head);
}

// A program that is called again and again, in which the arrays at some places move.
typedef struct {
    void **io;
    char *arena;
    long piece_count;
    void (**pieces)(void **io, char *arena);
    long count;
    const long *places;
    long head;
} wg_again_t;

// Runs its pieces on arrays; up to the first that meets an index out of range, which is said by 1.
int wg_again(const wg_again_t *program, char *const *arrays)
{
    wg_place(program->io, program->places, arrays, program->count, program->head);
    for (long i = 0; i < program->piece_count && !wg_error; i++) program->pieces[i](program->io, program->arena);
    int failed = wg_error;
    wg_error = 0;
    return failed;
}
