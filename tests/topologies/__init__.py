"""Tests of topologies/."""
