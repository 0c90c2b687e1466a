----------------------------- MODULE MutexLive -----------------------------
(***************************************************************************)
(* That nobody waits for nothing: what of Mutex.tla has to happen some     *)
(* time, and what comes of that.                                           *)
(***************************************************************************)
EXTENDS Mutex

(* Time passes; a process asks again when its timer rings,   *)
(* ends what it has and tells Redis; and whatever may happen again and     *)
(* again happens some time: a request is done, an answer comes, and comes  *)
(* in time. Nobody has to give up.                                         *)
InTime(p) == \E m \in net : \/ m.kind = "acquire" /\ m.o = Own(p) /\ m.age < Lease /\ proc[p].asking /\ Run(m)
Comes(p) == \E m \in net : (Granted(m, p) \/ Handed(m, p)) /\ proc'[p].st = "held"
Fairness == /\ WF_vars(Tick)
            /\ \A p \in Procs : /\ SF_vars(Again(p)) /\ SF_vars(Unlock(p)) /\ SF_vars(InTime(p)) /\ SF_vars(Comes(p))
                                /\ SF_vars(\E m \in net : m.o[1] = p /\ Run(m))
                                /\ SF_vars(\E m \in net : m.o[1] = p /\ Answer(m))
                                /\ SF_vars(\E g \in gone : g.o[1] = p /\ GiveBack(g))
FairSpec == Spec /\ Fairness

(* Whoever waits is served, or gives up, or dies.                          *)
Served == \A p \in Procs : (proc[p].st \in Claiming) ~> (proc[p].st \notin Claiming)
=============================================================================
