"""A machine as a picture: `-o svg` and `-o html` of inspect, plan and predict, all from the same drawing."""
