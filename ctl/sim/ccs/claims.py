from ctl.sim.claim import Claim
CLAIMS: tuple[Claim, ...] = ()
