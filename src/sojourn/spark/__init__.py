"""Operations as data on Spark: DataFrames in, DataFrames out, batch and streaming."""
