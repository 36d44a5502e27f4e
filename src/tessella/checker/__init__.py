"""Check a certificate: ``python -m tessella.checker model.nc certificate.json``.

This folder is independent: it needs NumPy, SciPy and a reader for the model file, shares no code
with what made the certificate, and may be copied anywhere (``python checker model.nc c.json``).
HOLDS means that every stated enclosure holds the exact figure of the model, whatever wrote the
certificate:

- The arrays of the model file are those that the certificate names, by their hash.
- A value V is within r / (1 - c) of V* where r = max|T V - V|, c = discount * largest row sum; so
  for the policy's value and T_pi, and in sum for the occupancy. With a horizon of T periods, each
  of which moves time on by one, it is r (1 + c + ... + c^(T - 1)). A stated error must be at least
  that. Residuals are computed in twice the usual precision, so that rounding plays no part; what
  the model's own arrays may be off (``row_error``, ``reward_error`` of the file) is added to r.
- Local losses and margins follow from the action values at V, all other figures from these, from
  the start and from the stated errors. Each enclosure must reach at least as far as the derived
  one, which is computed in twice the precision too, and no further than rounding explains.
- Of an average, each row of the file is read as divided by its sum. With d = T h - h at stated
  relative values h, the best gain from every state lies in min d .. max d, and with T_pi in the
  place of T the policy's; the model's own arrays may put d off by reward_error and by row_error
  times max h - min h. That is so whatever h is and whatever the chains are.
- Of a total, U that is 0 where the process has ended and above its backup elsewhere, U > T U, is
  more than any policy earns: what it earns in n periods is at most U(s) - E[U(s_n)], less what U is
  above T U in each period before the end, which adds up without bound where it may never end. So L
  that is below its backup, L < T L, is earned by the policy that is greedy at L; and with T_pi both
  bound what the policy earns. What the model's own arrays may be off must be smaller than that.

A document with a field that is missing, doubled, malformed or unknown is rejected. The exit status
is 0 where it holds, 1 where it is rejected, 2 where nothing was checked: a file is missing, the two
files seem to be swapped, or the certificate was computed in blocks, and states figures without what
proves them.
"""

from .check import main

__all__ = ["main"]
