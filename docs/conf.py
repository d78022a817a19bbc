"""How Sphinx makes a site of these pages: `make docs`."""

import bayplan

project = "Bayplan"
version = release = bayplan.__version__
copyright = "the Bayplan authors"
extensions = ["myst_parser", "sphinx_copybutton"]
html_theme = "furo"
html_title = f"Bayplan {version}"
html_show_sphinx = False
html_static_path = []

myst_heading_anchors = 4  # links to headings as GitHub names them
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["myst.header"]

# Commands are copied without prompt, and without what they print.
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
copybutton_line_continuation_character = "\\"
