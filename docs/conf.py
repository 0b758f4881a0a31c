"""Sphinx configuration.

Sphinx with the pydata theme, sphinx-gallery and numpydoc, because that is where the readers of scikit-learn, skrub and
TabICL are at home: the API pages come from the same numpydoc docstrings the doctests run, and the gallery is plain
scripts that the build executes. mkdocs-material is in maintenance mode and its successor is young.
"""

import warnings

import scff

project = "scff"
author = "The scff developers"
copyright = author
version = release = scff.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]  # a class page shows its own members, not those scikit-learn's mixins add
exclude_patterns = ["_build", "README.md"]
html_theme = "pydata_sphinx_theme"
html_title = "scff"
html_theme_options = {
    "show_prev_next": False,
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_context = {"default_mode": "auto"}
# A page without sub-pages needs no empty sidebar.
html_sidebars = {"index": []}  # patterns must not overlap: that is a warning, and warnings are errors
html_show_sourcelink = False
default_role = "py:obj"
nitpicky = False

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's Parameters say it in words
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
    "show_memory": False,
    "download_all_examples": False,
    "abort_on_example_error": True,
    "image_scrapers": ("matplotlib",),
}

# The progress bars and thread pools of the libraries below us warn; the build must only fail on our own account.
warnings.filterwarnings("ignore", category=UserWarning, module="joblib")
