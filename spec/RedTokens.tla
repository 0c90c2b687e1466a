----------------------------- MODULE RedTokens -----------------------------
(***************************************************************************)
(* The fencing tokens of RedLock.tla while no time passes: leases do not   *)
(* expire, and are given back in any order.                                *)
(***************************************************************************)
EXTENDS RedLock

Steps == \/ \E p \in Procs : Ballot(p) \/ Elected(p) \/ Win(p) \/ End(p)
         \/ \E p \in Procs, s \in Servers :
              Run(p, s) \/ Answer(p, s) \/ Admit(p, s) \/ Raise(p, s) \/ TooLate(p, s) \/ Release(p, s)
Timeless == Init /\ [][Steps]_vars
=============================================================================
