"""What runs the stages: one process, or the workers of a Ray cluster.

stages        each stage as both run it: read, decide, hand back
job           which stages a command runs, with their options
partitions    rows by group and back: hashes, packing, how much at a time
blocks        one partition through the stages; one piece of a file to its output
merging       summaries of partitions as one
ray_engine    the driver; ray_worker: what runs beside the data; tally: what workers tell each other
"""
