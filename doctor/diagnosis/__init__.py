"""From events to the one cause: rules, matching, root against cascade, and fixes."""
