----------------------------- MODULE MultiLock -----------------------------
(***************************************************************************)
(* Several mutexes as one: all or none. How to read it, and how time is    *)
(* kept, is said in Mutex.tla.                                             *)
(*                                                                         *)
(* The members are numbered in the order of their keys, which is the same  *)
(* for all processes. Each is a mutex as Mutex.tla has it, which says what *)
(* becomes of a request whose outcome is unknown: its claim is withdrawn,  *)
(* until the server has answered (back). Waiting is: standing in the line  *)
(* of one member.                                                          *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, Sequences, TLC

CONSTANTS
  Procs,
  Members,     \* 1..n
  Some,        \* processes that want all but the first; the others want all
  Lease,
  Losses,      \* how many members may be lost: deleted behind the holder's back
  None

VARIABLES
  srv,         \* of each member: who has it, for how long, and its line
  proc,        \* of each process: st, the member it waits for, and ghost: what its lease is of
  part,        \* of each process and member: none, asks, yes (answered), has, back
  losses

vars == <<srv, proc, part, losses>>
Wants == [p \in Procs |-> IF p \in Some THEN Members \ {1} ELSE Members]
Max(a, b) == IF a > b THEN a ELSE b
Nothing == [st |-> "none", trust |-> 0]

Init == /\ srv = [k \in Members |-> [owner |-> None, left |-> 0, line |-> <<>>]]
        /\ proc = [p \in Procs |-> [st |-> "idle", for |-> 0]]
        /\ part = [p \in Procs |-> [k \in Members |-> Nothing]]
        /\ losses = Losses

Has(p, k) == part[p][k].st = "has" /\ part[p][k].trust > 0
First(p) == CHOOSE k \in Wants[p] : part[p][k].st # "has" /\ \A i \in Wants[p] : i < k => part[p][i].st = "has"
Complete(p) == \A k \in Wants[p] : part[p][k].st = "has"
Listed(line, p) == \E i \in 1..Len(line) : line[i] = p
Without(line, p) == SelectSeq(line, LAMBDA x : x # p)

(* Who has what it waits for, or holds the whole, renews: watchdog. So     *)
(* only what a process has not heard of runs out, and what is lost.        *)
Tick == /\ srv' = [k \in Members |->
             LET s == srv[k]
                 renewed == s.owner # None /\ part[s.owner][k].st = "has" /\ part[s.owner][k].trust > 0
             IN IF renewed THEN s
                ELSE [s EXCEPT !.left = Max(0, @ - 1), !.owner = IF s.left <= 1 THEN None ELSE @]]
        /\ part' = [p \in Procs |-> [k \in Members |->
             IF part[p][k].st = "has" /\ srv[k].owner = p THEN part[p][k]
             ELSE [part[p][k] EXCEPT !.trust = Max(0, @ - 1)]]]
        /\ UNCHANGED <<proc, losses>>

-----------------------------------------------------------------------------
(* MultiLock.Lock begins. *)
Begin(p) == /\ proc[p].st = "idle" /\ \A k \in Members : part[p][k].st = "none"
            /\ proc' = [proc EXCEPT ![p] = [st |-> "takes", for |-> 0]]
            /\ UNCHANGED <<srv, part, losses>>

(* tryTogether, multilock.go, and take.lua: the rest is asked for at once, *)
(* without standing in line. Up to the first that is refused it is kept,   *)
(* what is behind that is given back; then it is waited for alone.         *)
Try(p) == /\ proc[p].st = "takes" /\ ~Complete(p)
          /\ LET rest == {k \in Wants[p] : part[p][k].st # "has"}
                 got == {k \in rest : srv[k].owner = None}
                 kept == {k \in got : \A i \in rest : i < k => i \in got}
             IN /\ srv' = [k \in Members |-> IF k \in got THEN [srv[k] EXCEPT !.owner = p, !.left = Lease] ELSE srv[k]]
                /\ part' = [part EXCEPT ![p] = [k \in Members |->
                     IF k \in kept THEN [st |-> "has", trust |-> Lease]
                     ELSE IF k \in got THEN [Nothing EXCEPT !.st = "back"] ELSE @[k]]]
                /\ IF got = rest THEN proc' = proc
                   ELSE proc' = [proc EXCEPT ![p] = [st |-> "waits",
                          for |-> CHOOSE k \in rest \ got : \A i \in rest \ got : k <= i]]
          /\ UNCHANGED losses

(* The reply to that is lost: nobody knows what was granted. All of it is  *)
(* given back, and the call begins again or fails.                         *)
TryLost(p) == /\ proc[p].st = "takes" /\ ~Complete(p)
              /\ srv' = [k \in Members |-> IF k \in Wants[p] /\ srv[k].owner = None
                                           THEN [srv[k] EXCEPT !.owner = p, !.left = Lease] ELSE srv[k]]
              /\ part' = [part EXCEPT ![p] = [k \in Members |->
                   IF k \in Wants[p] THEN [Nothing EXCEPT !.st = "back"] ELSE @[k]]]
              /\ proc' = [proc EXCEPT ![p] = [st |-> "idle", for |-> 0]]
              /\ UNCHANGED losses

(* The member that was refused is waited for, as a mutex is: acquire.lua.  *)
Stand(p) == /\ proc[p].st = "waits"
            /\ LET k == proc[p].for IN
                 /\ part[p][k].st = "none"
                 /\ IF srv[k].owner = None
                    THEN /\ srv' = [srv EXCEPT ![k].owner = p, ![k].left = Lease, ![k].line = Without(@, p)]
                         /\ part' = [part EXCEPT ![p][k] = [st |-> "has", trust |-> Lease]]
                         /\ proc' = [proc EXCEPT ![p] = [st |-> "takes", for |-> 0]]
                    ELSE /\ ~Listed(srv[k].line, p)
                         /\ srv' = [srv EXCEPT ![k].line = Append(@, p)]
                         /\ UNCHANGED <<part, proc>>
            /\ UNCHANGED losses

(* It was handed over. *)
Handed(p) == /\ proc[p].st = "waits" /\ srv[proc[p].for].owner = p
             /\ part[p][proc[p].for].st = "none"
             /\ part' = [part EXCEPT ![p][proc[p].for] = [st |-> "has", trust |-> srv[proc[p].for].left]]
             /\ proc' = [proc EXCEPT ![p] = [st |-> "takes", for |-> 0]]
             /\ UNCHANGED <<srv, losses>>

(* unite: all of them are there, so the whole is a lease. *)
Take(p) == /\ proc[p].st = "takes" /\ Complete(p)
           /\ proc' = [proc EXCEPT ![p].st = "holds"]
           /\ UNCHANGED <<srv, part, losses>>

(* undo, union.unlock: whatever happens, all that it has is given back.    *)
(* Where it waits it leaves the line.                                      *)
End(p) == /\ proc[p].st \in {"takes", "waits", "holds"}
          /\ part' = [part EXCEPT ![p] = [k \in Members |->
               IF @[k].st = "has" \/ (proc[p].st = "waits" /\ proc[p].for = k)
               THEN [Nothing EXCEPT !.st = "back"] ELSE @[k]]]
          /\ proc' = [proc EXCEPT ![p] = [st |-> "idle", for |-> 0]]
          /\ UNCHANGED <<srv, losses>>

(* A member is lost: the whole is, and what is left is given back. While   *)
(* others are still waited for all begins again: MultiLock.Lock.           *)
Lost(p) == /\ proc[p].st \in {"takes", "waits", "holds"}
           /\ \E k \in Wants[p] : part[p][k].st = "has" /\ (part[p][k].trust = 0 \/ srv[k].owner # p)
           /\ part' = [part EXCEPT ![p] = [k \in Members |->
                IF @[k].st = "has" \/ (proc[p].st = "waits" /\ proc[p].for = k)
                THEN [Nothing EXCEPT !.st = "back"] ELSE @[k]]]
           /\ proc' = [proc EXCEPT ![p] = [st |-> "idle", for |-> 0]]
           /\ UNCHANGED <<srv, losses>>

(* release.lua: to the first in line, or free. *)
Release(p, k) ==
  /\ part[p][k].st = "back"
  /\ LET line == Without(srv[k].line, p) IN
     srv' = IF srv[k].owner = p
            THEN IF line = <<>> THEN [srv EXCEPT ![k] = [owner |-> None, left |-> 0, line |-> line]]
                 ELSE [srv EXCEPT ![k] = [owner |-> Head(line), left |-> Lease, line |-> Tail(line)]]
            ELSE [srv EXCEPT ![k].line = line]
  /\ part' = [part EXCEPT ![p][k] = Nothing]
  /\ UNCHANGED <<proc, losses>>

(* Somebody deletes the key of a member. *)
Delete(k) == /\ losses > 0 /\ losses' = losses - 1 /\ srv[k].owner # None
             /\ srv' = [srv EXCEPT ![k].owner = None, ![k].left = 0]
             /\ UNCHANGED <<proc, part>>

Next == \/ Tick
        \/ \E p \in Procs : Begin(p) \/ Try(p) \/ TryLost(p) \/ Stand(p) \/ Handed(p) \/ Take(p) \/ End(p) \/ Lost(p)
        \/ \E p \in Procs, k \in Members : Release(p, k)
        \/ \E k \in Members : Delete(k)
Spec == Init /\ [][Next]_vars
Alike == Permutations(Procs \ Some)

(* For liveness: time passes, servers answer, what is handed over is heard *)
(* of some time before it runs out, and who holds unlocks.                 *)
Fairness == /\ WF_vars(Tick)
            /\ \A p \in Procs : /\ WF_vars(Try(p)) /\ SF_vars(Stand(p)) /\ SF_vars(Handed(p)) /\ WF_vars(Take(p))
                                /\ WF_vars(Lost(p))
                                /\ WF_vars(proc[p].st = "holds" /\ End(p))
                                /\ \A k \in Members : WF_vars(Release(p, k))
FairSpec == Spec /\ Fairness

-----------------------------------------------------------------------------
Trusts(p) == proc[p].st = "holds" /\ \A k \in Wants[p] : Has(p, k)

(* All: who trusts in the whole has every member, unless one was deleted.  *)
InvAll == \A p \in Procs : Trusts(p) /\ losses = Losses => \A k \in Wants[p] : srv[k].owner = p

(* Two that want a member in common are never both trusted.                *)
InvExclusion == \A p, q \in Procs :
  p # q /\ Trusts(p) /\ Trusts(q) /\ losses = Losses => Wants[p] \cap Wants[q] = {}

(* None: who has given up has nothing that is not being given back.        *)
InvNone == \A k \in Members :
  srv[k].owner # None /\ proc[srv[k].owner].st = "idle" => part[srv[k].owner][k].st = "back"

(* Nobody waits while he has a key that is behind the one he waits for: so *)
(* nobody waits in a circle.                                               *)
InvOrder == \A p \in Procs :
  proc[p].st = "waits" => \A k \in Members : part[p][k].st = "has" => k < proc[p].for

(* Whoever waits gets on: he is served, or gives up.                       *)
Served == \A p \in Procs : (proc[p].st = "waits") ~> (proc[p].st # "waits")
=============================================================================
