"""Tests of the plan: its stages, its pipeline, its verification."""
