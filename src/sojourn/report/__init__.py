"""One page about what waited, how long, and what the timeout should have been."""

from sojourn.report.comparison import comparison as comparison  # two reports side by side
from sojourn.report.numbers import Numbers as Numbers  # everything the page says
from sojourn.report.numbers import Summary as Summary  # the totals
from sojourn.report.numbers import count as count  # the numbers of outcomes
from sojourn.report.numbers import summarise as summarise  # the totals of outcomes
from sojourn.report.page import page as page  # numbers as an HTML document
from sojourn.report.sources import BadOutcomes as BadOutcomes  # what was given are no outcomes
from sojourn.report.stays import Stays as Stays  # outcomes, from tables or a folder
