"""An orbit fitted through a differential equation: mass, position and velocity from noisy sightings, by Gauss-Newton.

    python examples/orbit.py [--sightings 40] [--noise 0.001] [--steps 25]

A planet orbits a star in a plane. From noisy positions at known times, the fit finds the star's mass, and the planet's
position and velocity at the first time. The sightings are generated from Kepler's equation; the fit does not know it
and integrates Newton's law. Kepler's third law then gives the period, to be compared with the true one.
"""

import argparse
import math

import numpy as np

import wengert as wg

MASS, AXIS, ECCENTRICITY = 1.3, 1.1, 0.4


def kepler(times):
    """Positions and velocities at times since periapsis."""
    motion = math.sqrt(MASS / AXIS**3)
    mean = motion * times
    anomaly = mean + ECCENTRICITY * np.sin(mean)
    for _ in range(30):  # Newton's method for E - e sin E = M
        anomaly -= (anomaly - ECCENTRICITY * np.sin(anomaly) - mean) / (1 - ECCENTRICITY * np.cos(anomaly))
    b = AXIS * math.sqrt(1 - ECCENTRICITY**2)
    speed = motion / (1 - ECCENTRICITY * np.cos(anomaly))
    positions = np.stack([AXIS * (np.cos(anomaly) - ECCENTRICITY), b * np.sin(anomaly)], axis=1)
    velocities = np.stack([-AXIS * np.sin(anomaly) * speed, b * np.cos(anomaly) * speed], axis=1)
    return positions, velocities


def attracted(t, state, mass):
    """Newton's law of gravitation."""
    position, velocity = state
    squared = (position * position).sum()
    return velocity, -mass * position / (squared * wg.sqrt(squared))


def orbit(parameters, times):
    """The planet's positions at these times."""
    mass, start = parameters[0], (parameters[1:3], parameters[3:5])
    return wg.ode.solve(attracted, start, times, mass, method="dopri8", rtol=1e-9, atol=1e-10).ys[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sightings", type=int, default=40)
    parser.add_argument("--noise", type=float, default=0.001)
    parser.add_argument("--steps", type=int, default=25)
    options = parser.parse_args()

    period = 2 * math.pi * math.sqrt(AXIS**3 / MASS)
    times = np.linspace(0, 1.2 * period, options.sightings)
    positions, velocities = kepler(times)
    seen = wg.tensor(positions + options.noise * np.random.default_rng(0).normal(size=positions.shape))
    truth = np.array([MASS, *positions[0], *velocities[0]])

    def residuals(parameters):
        return (orbit(parameters, times) - seen).reshape((-1,))

    @wg.compile
    def moved_along(parameters, direction):
        return wg.jvp(residuals, (parameters,), (direction,))

    def linearised(parameters):
        pairs = [moved_along(parameters, wg.tensor(direction)) for direction in np.eye(5)]
        return pairs[0][0], wg.stack([slope for _, slope in pairs], axis=1)

    parameters = wg.tensor(truth * [0.98, 1.01, 1.0, 1.0, 0.995] + [0, 0, 0.01, -0.01, 0])
    damping, (off, slopes) = 1e-3, linearised(parameters)
    for step in range(options.steps):
        matrix, right = slopes.T @ slopes, slopes.T @ off
        change = wg.linalg.solve(matrix + damping * wg.diag(wg.diagonal(matrix)), right)
        moved = parameters - change
        off_there, slopes_there = linearised(moved)
        better = (off_there**2).sum().item() < (off**2).sum().item()
        if better:  # Levenberg and Marquardt: less damping after a success
            parameters, off, slopes = moved, off_there, slopes_there
        damping = damping / 10 if better else damping * 10
        size = wg.sqrt((off**2).mean()).item()
        print(f"step {step + 1:2d}: root mean square {size:.6f}, mass {parameters[0].item():.6f}")

    found = parameters.numpy()
    spread = options.noise * np.sqrt(np.diag(np.linalg.inv((slopes.T @ slopes).numpy())))
    names = ("mass", "x", "y", "velocity in x", "velocity in y")
    for name, value, exact, sigma in zip(names, found, truth, spread):
        print(f"{name:>13}: {value:9.6f} +- {sigma:.6f}, true {exact:9.6f}")
    axis = 1 / (2 / np.hypot(*found[1:3]) - (found[3] ** 2 + found[4] ** 2) / found[0])  # the vis-viva equation
    print(f"period {2 * math.pi * math.sqrt(axis**3 / found[0]):.5f}, true {period:.5f}")


if __name__ == "__main__":
    main()
