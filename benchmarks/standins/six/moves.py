"""What the programs use of six.moves."""

import urllib as urllib
