----------------------------- MODULE MultiLock -----------------------------
(***************************************************************************)
(* Several mutexes as one: all or none. Mutex.tla says how to read a       *)
(* module and how time passes.                                             *)
(*                                                                         *)
(* The members are numbered in the order of their keys, which is the same  *)
(* for all processes. Each is a mutex as in Mutex.tla, which says what     *)
(* happens to a request with an unknown outcome: its ticket is withdrawn   *)
(* until the server has answered (back). A process that waits stands in    *)
(* the wait queue of one member.                                           *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, Sequences, TLC

CONSTANTS
  Procs,
  Members,     \* 1..n
  Some,        \* processes that want all but the first; the others want all
  Lease,
  Losses,      \* the largest number of members whose keys are deleted
  None

VARIABLES
  srv,         \* of each member: its owner, for how long, and its wait queue
  proc,        \* of each process: its state, and the member that it waits for
  part,        \* of each process and member: none, has, or back
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

(* The watchdog renews what a process has, and what it holds. So only the  *)
(* parts that a process does not know of expire, and those that are lost.  *)
(* Environment: the clocks.                                                *)
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
(* A call begins. Code: MultiLock.Lock, MultiLock.take.                    *)
Begin(p) == /\ proc[p].st = "idle" /\ \A k \in Members : part[p][k].st = "none"
            /\ proc' = [proc EXCEPT ![p] = [st |-> "takes", for |-> 0]]
            /\ UNCHANGED <<srv, part, losses>>

(* The call asks for all missing members at once, without joining a wait   *)
(* queue. It keeps those before the first refused one, and gives back      *)
(* those behind it. Then it waits for the refused one alone. Code:         *)
(* tryTogether, take.lua.                                                  *)
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

(* The reply to that is lost, so the call does not know which members it   *)
(* has. It gives back all of them, and begins again or fails. Code:        *)
(* tryTogether, undo.                                                      *)
TryLost(p) == /\ proc[p].st = "takes" /\ ~Complete(p)
              /\ srv' = [k \in Members |-> IF k \in Wants[p] /\ srv[k].owner = None
                                           THEN [srv[k] EXCEPT !.owner = p, !.left = Lease] ELSE srv[k]]
              /\ part' = [part EXCEPT ![p] = [k \in Members |->
                   IF k \in Wants[p] THEN [Nothing EXCEPT !.st = "back"] ELSE @[k]]]
              /\ proc' = [proc EXCEPT ![p] = [st |-> "idle", for |-> 0]]
              /\ UNCHANGED losses

(* The call waits for the refused member, as for a mutex. Code:            *)
(* MultiLock.behind, acquire.lua.                                          *)
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

(* Another process handed the member over. Code: Ticket.Handed.            *)
Handed(p) == /\ proc[p].st = "waits" /\ srv[proc[p].for].owner = p
             /\ part[p][proc[p].for].st = "none"
             /\ part' = [part EXCEPT ![p][proc[p].for] = [st |-> "has", trust |-> srv[proc[p].for].left]]
             /\ proc' = [proc EXCEPT ![p] = [st |-> "takes", for |-> 0]]
             /\ UNCHANGED <<srv, losses>>

(* The call has all members, so the whole is a lease. Code: compose.       *)
Take(p) == /\ proc[p].st = "takes" /\ Complete(p)
           /\ proc' = [proc EXCEPT ![p].st = "holds"]
           /\ UNCHANGED <<srv, part, losses>>

(* The call ends, or the holder unlocks: all members that the process has  *)
(* are given back. A process that waits leaves the wait queue. Code: undo, *)
(* compositeLease.Unlock.                                                  *)
End(p) == /\ proc[p].st \in {"takes", "waits", "holds"}
          /\ part' = [part EXCEPT ![p] = [k \in Members |->
               IF @[k].st = "has" \/ (proc[p].st = "waits" /\ proc[p].for = k)
               THEN [Nothing EXCEPT !.st = "back"] ELSE @[k]]]
          /\ proc' = [proc EXCEPT ![p] = [st |-> "idle", for |-> 0]]
          /\ UNCHANGED <<srv, losses>>

(* A member is lost, so the whole is lost, and the other members are given *)
(* back. A call that still waits begins again. Code: compositeLease.PartEnded, *)
(* MultiLock.take.                                                         *)
Lost(p) == /\ proc[p].st \in {"takes", "waits", "holds"}
           /\ \E k \in Wants[p] : part[p][k].st = "has" /\ (part[p][k].trust = 0 \/ srv[k].owner # p)
           /\ part' = [part EXCEPT ![p] = [k \in Members |->
                IF @[k].st = "has" \/ (proc[p].st = "waits" /\ proc[p].for = k)
                THEN [Nothing EXCEPT !.st = "back"] ELSE @[k]]]
           /\ proc' = [proc EXCEPT ![p] = [st |-> "idle", for |-> 0]]
           /\ UNCHANGED <<srv, losses>>

(* The release goes to the first process in the wait queue, or frees the   *)
(* key. Code: release.lua.                                                 *)
Release(p, k) ==
  /\ part[p][k].st = "back"
  /\ LET line == Without(srv[k].line, p) IN
     srv' = IF srv[k].owner = p
            THEN IF line = <<>> THEN [srv EXCEPT ![k] = [owner |-> None, left |-> 0, line |-> line]]
                 ELSE [srv EXCEPT ![k] = [owner |-> Head(line), left |-> Lease, line |-> Tail(line)]]
            ELSE [srv EXCEPT ![k].line = line]
  /\ part' = [part EXCEPT ![p][k] = Nothing]
  /\ UNCHANGED <<proc, losses>>

(* The key of a member is deleted. Environment: an operator.               *)
Delete(k) == /\ losses > 0 /\ losses' = losses - 1 /\ srv[k].owner # None
             /\ srv' = [srv EXCEPT ![k].owner = None, ![k].left = 0]
             /\ UNCHANGED <<proc, part>>

Next == \/ Tick
        \/ \E p \in Procs : Begin(p) \/ Try(p) \/ TryLost(p) \/ Stand(p) \/ Handed(p) \/ Take(p) \/ End(p) \/ Lost(p)
        \/ \E p \in Procs, k \in Members : Release(p, k)
        \/ \E k \in Members : Delete(k)
Spec == Init /\ [][Next]_vars
Alike == Permutations(Procs \ Some)

(* For liveness: time passes, servers answer, a message of a hand-over     *)
(* arrives eventually before its lease is over, and a holder unlocks.      *)
Fairness == /\ WF_vars(Tick)
            /\ \A p \in Procs : /\ WF_vars(Try(p)) /\ SF_vars(Stand(p)) /\ SF_vars(Handed(p)) /\ WF_vars(Take(p))
                                /\ WF_vars(Lost(p))
                                /\ WF_vars(proc[p].st = "holds" /\ End(p))
                                /\ \A k \in Members : WF_vars(Release(p, k))
FairSpec == Spec /\ Fairness

-----------------------------------------------------------------------------
Trusts(p) == proc[p].st = "holds" /\ \A k \in Wants[p] : Has(p, k)

(* All: a process that trusts the whole is the owner of every member,      *)
(* unless a member was deleted.                                            *)
InvAll == \A p \in Procs : Trusts(p) /\ losses = Losses => \A k \in Wants[p] : srv[k].owner = p

(* Two calls that want a member in common never both trust their leases.   *)
InvExclusion == \A p, q \in Procs :
  p # q /\ Trusts(p) /\ Trusts(q) /\ losses = Losses => Wants[p] \cap Wants[q] = {}

(* None: a process that has given up is the owner of no member that is not *)
(* being given back.                                                       *)
InvNone == \A k \in Members :
  srv[k].owner # None /\ proc[srv[k].owner].st = "idle" => part[srv[k].owner][k].st = "back"

(* A process waits for no member while it has one behind that, in the      *)
(* order of the keys: so no processes wait in a circle.                    *)
InvOrder == \A p \in Procs :
  proc[p].st = "waits" => \A k \in Members : part[p][k].st = "has" => k < proc[p].for

(* A process that waits gets the member, or gives up.                      *)
Served == \A p \in Procs : (proc[p].st = "waits") ~> (proc[p].st # "waits")
=============================================================================
