"""What users get, written down: every number and text of every kind of fit, to be compared before and after a change.

``python -m tests.net write FILE`` writes them; ``python -m tests.net compare BEFORE AFTER`` says what differs, by how
much. Only the public interface is asked, so that the two may be versions whose insides have nothing in common.
"""
