------------------------------ MODULE RedLock ------------------------------
(***************************************************************************)
(* A lock that is held on a majority of independent servers. How to read   *)
(* it, and how time is kept, is said in Mutex.tla.                         *)
(*                                                                         *)
(* On each server the lock is a mutex as Mutex.tla has it. So here one     *)
(* record for each process and server, its slot, says how far the request  *)
(* is: on its way, answered, or a part that is trusted. What is on its way *)
(* may take as long as it likes; a message that never arrives is one that  *)
(* takes for ever.                                                         *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
  Procs, Servers,
  Lease,
  Fenced,     \* TRUE: with fencing tokens (WithFencing)
  Renewing,   \* TRUE: leases are renewed
  Again,      \* TRUE: servers without a part in a lease are asked again
  Restarts,   \* how many times a server may come back without what it knew
  Away,       \* TRUE: it stays away for as long as a lease then, as the documentation of RedLock asks for
  MaxToken,   \* tokens that are drawn: only this bounds what is looked at
  None

VARIABLES
  srv,        \* each server: who has the lock, for how long, its counter, and for how long it is away
  proc,       \* each process: idle, asks (a ballot is under way), raises, or holds
  slot,       \* of each process at each server
  top,        \* the largest token of a lease that was given
  fell,       \* TRUE once a lease had a token that was no larger than one before
  restarts

vars == <<srv, proc, slot, top, fell, restarts>>

Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b
Most == Cardinality(Servers) \div 2 + 1       \* RedLock.needs

(* A slot: nothing; asks: the request is on its way; yes, no: the answer   *)
(* is; part: it is trusted for as long as trust; back: it is given back,   *)
(* until the server has said so. age is since the request was sent.        *)
(* renew: a renewal is on its way, done: its answer is; of is its age.     *)
Nothing == [st |-> "none", age |-> 0, trust |-> 0, token |-> 0, renew |-> "no", of |-> 0]

Init == /\ srv = [s \in Servers |-> [owner |-> None, left |-> 0, token |-> 0, away |-> 0]]
        /\ proc = [p \in Procs |-> [st |-> "idle", token |-> 0]]
        /\ slot = [p \in Procs |-> [s \in Servers |-> Nothing]]
        /\ top = 0 /\ fell = FALSE /\ restarts = Restarts

Parts(p) == {s \in Servers : slot[p][s].st = "part" /\ slot[p][s].trust > 0}
Trusts(p) == proc[p].st = "holds" /\ Cardinality(Parts(p)) >= Most

-----------------------------------------------------------------------------
Later(x) == [x EXCEPT !.age = IF x.st \in {"asks", "yes"} THEN Min(@ + 1, Lease) ELSE 0,
                      !.of = IF x.renew = "no" THEN 0 ELSE Min(@ + 1, Lease),
                      !.trust = Max(0, @ - 1)]
Tick == /\ srv' = [s \in Servers |->
             [srv[s] EXCEPT !.left = Max(0, @ - 1), !.away = Max(0, @ - 1),
                            !.owner = IF srv[s].left <= 1 THEN None ELSE @]]
        /\ slot' = [p \in Procs |-> [s \in Servers |-> Later(slot[p][s])]]
        /\ UNCHANGED <<proc, top, fell, restarts>>

-----------------------------------------------------------------------------
(* election.ask, redelection.go: all servers at once, with new owners. One *)
(* that has not answered an earlier ballot is left out.                    *)
Ballot(p) == /\ proc[p].st = "idle"
             /\ \A s \in Servers : slot[p][s].st \in {"none", "asks", "back"}
             /\ \E s \in Servers : slot[p][s].st = "none"
             /\ proc' = [proc EXCEPT ![p].st = "asks"]
             /\ slot' = [slot EXCEPT ![p] = [s \in Servers |->
                  IF @[s].st = "none" THEN [Nothing EXCEPT !.st = "asks"] ELSE @[s]]]
             /\ UNCHANGED <<srv, top, fell, restarts>>

(* acquire.lua, take.lua, on one server.                                   *)
Run(p, s) == /\ slot[p][s].st = "asks" /\ srv[s].away = 0
             /\ IF srv[s].owner \in {None, p}
                THEN /\ ~Fenced \/ srv[s].token < MaxToken
                     /\ LET t == IF Fenced THEN srv[s].token + 1 ELSE 0
                        IN /\ srv' = [srv EXCEPT ![s].owner = p, ![s].left = Max(@, Lease), ![s].token = t]
                           /\ slot' = [slot EXCEPT ![p][s].st = "yes", ![p][s].token = t]
                ELSE /\ slot' = [slot EXCEPT ![p][s] = [Nothing EXCEPT !.st = "no"]]
                     /\ UNCHANGED srv
             /\ UNCHANGED <<proc, top, fell, restarts>>

(* election.answered: what is granted becomes a part, trusted from when    *)
(* its own request was sent, unless the ballot is lost: then it is given   *)
(* back (its claim is withdrawn, as in Mutex.tla).                         *)
Answer(p, s) ==
  /\ slot[p][s].st \in {"yes", "no"} /\ proc[p].st \in {"asks", "raises"}
  /\ slot' = [slot EXCEPT ![p][s] =
       IF @.st = "no" THEN Nothing
       ELSE IF @.age < Lease THEN [@ EXCEPT !.st = "part", !.trust = Lease - slot[p][s].age, !.age = 0]
       ELSE [Nothing EXCEPT !.st = "back"]]
  /\ UNCHANGED <<srv, proc, top, fell, restarts>>

(* election.admit, election.complete, redwhole.go: what comes when the     *)
(* lease is there joins it, when the server knows of the token (raise.lua  *)
(* is run before) and while the whole is trusted; else it is given back.   *)
Admit(p, s) ==
  /\ slot[p][s].st \in {"yes", "no"} /\ proc[p].st = "holds"
  /\ IF slot[p][s].st = "yes" /\ Trusts(p) /\ slot[p][s].age < Lease
     THEN /\ slot' = [slot EXCEPT ![p][s].st = "part", ![p][s].trust = Lease - slot[p][s].age, ![p][s].age = 0]
          /\ srv' = [srv EXCEPT ![s].token = Max(@, proc[p].token)]
     ELSE /\ slot' = [slot EXCEPT ![p][s] = IF @.st = "yes" THEN [Nothing EXCEPT !.st = "back"] ELSE Nothing]
          /\ UNCHANGED srv
  /\ UNCHANGED <<proc, top, fell, restarts>>
AskAgain(p, s) == /\ Again /\ Trusts(p) /\ slot[p][s].st = "none"
                  /\ slot' = [slot EXCEPT ![p][s].st = "asks"]
                  /\ UNCHANGED <<srv, proc, top, fell, restarts>>

(* election.win: a majority is the lease. With fencing its token is the    *)
(* largest that they gave, and all of them have to know of it first.       *)
Largest(p) == CHOOSE t \in {slot[p][s].token : s \in Parts(p)} : \A s \in Parts(p) : slot[p][s].token <= t
Elected(p) == /\ proc[p].st = "asks" /\ Cardinality(Parts(p)) >= Most
              /\ proc' = [proc EXCEPT ![p].st = "raises", ![p].token = Largest(p)]
              /\ UNCHANGED <<srv, slot, top, fell, restarts>>

(* raise.lua, on one server. slot.token is what the server is known to     *)
(* know of.                                                                *)
Raise(p, s) == /\ Fenced /\ proc[p].st = "raises" /\ slot[p][s].st = "part" /\ srv[s].away = 0
               /\ slot[p][s].token < proc[p].token
               /\ srv' = [srv EXCEPT ![s].token = Max(@, proc[p].token)]
               /\ slot' = [slot EXCEPT ![p][s].token = proc[p].token]
               /\ UNCHANGED <<proc, top, fell, restarts>>
Win(p) == /\ proc[p].st = "raises" /\ Cardinality(Parts(p)) >= Most
          /\ \A s \in Parts(p) : slot[p][s].token >= proc[p].token
          /\ proc' = [proc EXCEPT ![p].st = "holds"]
          /\ fell' = (fell \/ (Fenced /\ proc[p].token <= top))
          /\ top' = Max(top, proc[p].token)
          /\ UNCHANGED <<srv, slot, restarts>>

(* election.lose, union.unlock, union.look: what was granted is given back *)
(* and what is asked for when it comes. A lease ends when it is unlocked,  *)
(* and when too few parts are trusted.                                     *)
End(p) == /\ proc[p].st # "idle"
          /\ proc' = [proc EXCEPT ![p] = [st |-> "idle", token |-> 0]]
          /\ slot' = [slot EXCEPT ![p] = [s \in Servers |->
               CASE @[s].st \in {"yes", "part"} -> [Nothing EXCEPT !.st = "back"]
                 [] @[s].st = "no" -> Nothing
                 [] OTHER -> @[s]]]
          /\ UNCHANGED <<srv, top, fell, restarts>>
(* An answer to a ballot that is over. *)
TooLate(p, s) == /\ proc[p].st = "idle" /\ slot[p][s].st \in {"yes", "no"}
                 /\ slot' = [slot EXCEPT ![p][s] = IF @.st = "yes" THEN [Nothing EXCEPT !.st = "back"] ELSE Nothing]
                 /\ UNCHANGED <<srv, proc, top, fell, restarts>>

(* release.lua, on one server.                                             *)
Release(p, s) == /\ slot[p][s].st = "back" /\ srv[s].away = 0
                 /\ srv' = IF srv[s].owner = p THEN [srv EXCEPT ![s].owner = None, ![s].left = 0] ELSE srv
                 /\ slot' = [slot EXCEPT ![p][s] = Nothing]
                 /\ UNCHANGED <<proc, top, fell, restarts>>

-----------------------------------------------------------------------------
(* Each part is renewed by itself, as in Mutex.tla: so the lease may go on *)
(* with another majority than it began with.                               *)
Renew(p, s) == /\ Renewing /\ proc[p].st = "holds" /\ s \in Parts(p) /\ slot[p][s].renew = "no"
               /\ slot' = [slot EXCEPT ![p][s].renew = "sent", ![p][s].of = 0]
               /\ UNCHANGED <<srv, proc, top, fell, restarts>>
RunRenew(p, s) == /\ slot[p][s].renew = "sent" /\ srv[s].away = 0
                  /\ IF srv[s].owner = p
                     THEN /\ srv' = [srv EXCEPT ![s].left = Max(@, Lease)]
                          /\ slot' = [slot EXCEPT ![p][s].renew = "done"]
                     ELSE /\ slot' = [slot EXCEPT ![p][s] = [Nothing EXCEPT !.st = "back"]]  \* election.replace
                          /\ UNCHANGED srv
                  /\ UNCHANGED <<proc, top, fell, restarts>>
Renewed(p, s) == /\ slot[p][s].renew = "done"
                 /\ slot' = [slot EXCEPT ![p][s].renew = "no", ![p][s].of = 0,
                                         ![p][s].trust = Max(@, Lease - slot[p][s].of)]
                 /\ UNCHANGED <<srv, proc, top, fell, restarts>>
PartLost(p, s) == /\ slot[p][s].st = "part" /\ slot[p][s].trust = 0
                  /\ slot' = [slot EXCEPT ![p][s] = [Nothing EXCEPT !.st = "back"]]
                  /\ UNCHANGED <<srv, proc, top, fell, restarts>>

-----------------------------------------------------------------------------
(* A server is back, empty. Its clock has gone on, so the tokens that it   *)
(* draws are no smaller than before.                                       *)
Restart(s) == /\ restarts > 0 /\ restarts' = restarts - 1
              /\ srv' = [srv EXCEPT ![s].owner = None, ![s].left = 0, ![s].away = IF Away THEN Lease ELSE 0]
              /\ UNCHANGED <<proc, slot, top, fell>>

Next == \/ Tick
        \/ \E p \in Procs : Ballot(p) \/ Elected(p) \/ Win(p) \/ End(p)
        \/ \E p \in Procs, s \in Servers :
             Run(p, s) \/ Answer(p, s) \/ Admit(p, s) \/ AskAgain(p, s) \/ Raise(p, s) \/ TooLate(p, s)
             \/ Release(p, s) \/ Renew(p, s) \/ RunRenew(p, s) \/ Renewed(p, s) \/ PartLost(p, s)
        \/ \E s \in Servers : Restart(s)

Spec == Init /\ [][Next]_vars
Alike == Permutations(Procs) \cup Permutations(Servers)

-----------------------------------------------------------------------------
(* Two leases are never both trusted. *)
InvExclusion == \A p, q \in Procs : p # q => ~(Trusts(p) /\ Trusts(q))

(* A majority of the servers agrees with who is trusted, for as long. *)
InvTruth == \A p \in Procs : Trusts(p) =>
  Cardinality({s \in Parts(p) : srv[s].owner = p /\ srv[s].left >= slot[p][s].trust}) >= Most

(* The token of a lease is larger than that of every earlier one. *)
InvTokens == ~fell
=============================================================================
