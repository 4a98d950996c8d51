"""The dashboard: one page, its style and its scripts, served as they lie in `assets`."""

from sojourn.service.dashboard.pages import file as file  # GET /dashboard/{name}
from sojourn.service.dashboard.pages import index as index  # GET /
