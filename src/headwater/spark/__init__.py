"""Spark: the front end that reads SQL, and the jobs that run a pipeline. The only package that imports pyspark."""
