"""Operations as data: the rules of the purgatory over rows, replayed in process."""
