"""A pure simulator of the NRI balloons plugin (containers/nri-plugins, resource-policy balloons, 0.14).

Written from the plugin's observable rules; it reads no file and no machine. See ``simulator.py`` for how to use it.
"""
