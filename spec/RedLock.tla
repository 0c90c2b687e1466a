------------------------------ MODULE RedLock ------------------------------
(***************************************************************************)
(* A lock that is held on a majority of independent servers. Mutex.tla     *)
(* says how to read a module and how time passes.                          *)
(*                                                                         *)
(* On each server the lock is a mutex as in Mutex.tla. So one record for   *)
(* each process and server, its slot, says how far the request is: under   *)
(* way, answered, or a part that is trusted. A request can be under way    *)
(* for any time; a message that is lost is one that never arrives.         *)
(*                                                                         *)
(* A ballot is a round of requests to all servers (Round in                *)
(* internal/quorum/quorum.go).                                             *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
  Procs, Servers,
  Lease,
  Fenced,     \* TRUE: with fencing tokens (WithFencing)
  Renewing,   \* TRUE: leases are renewed
  Again,      \* TRUE: servers without a part in a lease are asked again
  Restarts,   \* the largest number of restarts of a server without its data
  Away,       \* TRUE: it then stays away for as long as a lease, as the documentation of RedLock demands
  MaxToken,   \* the largest number of tokens: it alone bounds the states
  None

VARIABLES
  srv,        \* each server: the owner of the lock, for how long, its counter, and for how long the server is away
  proc,       \* each process: idle, asks (a ballot is under way), raises, or holds
  slot,       \* of each process at each server
  top,        \* the largest token of a lease
  fell,       \* TRUE once the token of a lease was not larger than an earlier one
  restarts

vars == <<srv, proc, slot, top, fell, restarts>>

Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b
Most == Cardinality(Servers) \div 2 + 1       \* RedLock.needs

(* A slot. none: no request; asks: the request is under way; yes, no: the  *)
(* answer is under way; part: it is trusted for trust more units; back: it *)
(* is being given back until the server has answered. age is the time      *)
(* since the request was sent. renew: a renewal is under way, or its       *)
(* answer is (done); of is its age.                                        *)
Nothing == [st |-> "none", age |-> 0, trust |-> 0, token |-> 0, renew |-> "no", of |-> 0]

Init == /\ srv = [s \in Servers |-> [owner |-> None, left |-> 0, token |-> 0, away |-> 0]]
        /\ proc = [p \in Procs |-> [st |-> "idle", token |-> 0]]
        /\ slot = [p \in Procs |-> [s \in Servers |-> Nothing]]
        /\ top = 0 /\ fell = FALSE /\ restarts = Restarts

Parts(p) == {s \in Servers : slot[p][s].st = "part" /\ slot[p][s].trust > 0}
Trusts(p) == proc[p].st = "holds" /\ Cardinality(Parts(p)) >= Most

-----------------------------------------------------------------------------
(* One unit of time passes. Environment: the clocks.                       *)
Later(x) == [x EXCEPT !.age = IF x.st \in {"asks", "yes"} THEN Min(@ + 1, Lease) ELSE 0,
                      !.of = IF x.renew = "no" THEN 0 ELSE Min(@ + 1, Lease),
                      !.trust = Max(0, @ - 1)]
Tick == /\ srv' = [s \in Servers |->
             [srv[s] EXCEPT !.left = Max(0, @ - 1), !.away = Max(0, @ - 1),
                            !.owner = IF srv[s].left <= 1 THEN None ELSE @]]
        /\ slot' = [p \in Procs |-> [s \in Servers |-> Later(slot[p][s])]]
        /\ UNCHANGED <<proc, top, fell, restarts>>

-----------------------------------------------------------------------------
(* A round asks all servers at once, with new owners. A server that has    *)
(* not answered an earlier round is left out. Code: quorumAcquire.Ask.     *)
Ballot(p) == /\ proc[p].st = "idle"
             /\ \A s \in Servers : slot[p][s].st \in {"none", "asks", "back"}
             /\ \E s \in Servers : slot[p][s].st = "none"
             /\ proc' = [proc EXCEPT ![p].st = "asks"]
             /\ slot' = [slot EXCEPT ![p] = [s \in Servers |->
                  IF @[s].st = "none" THEN [Nothing EXCEPT !.st = "asks"] ELSE @[s]]]
             /\ UNCHANGED <<srv, top, fell, restarts>>

(* One server runs the request. Code: acquire.lua, take.lua.               *)
Run(p, s) == /\ slot[p][s].st = "asks" /\ srv[s].away = 0
             /\ IF srv[s].owner \in {None, p}
                THEN /\ ~Fenced \/ srv[s].token < MaxToken
                     /\ LET t == IF Fenced THEN srv[s].token + 1 ELSE 0
                        IN /\ srv' = [srv EXCEPT ![s].owner = p, ![s].left = Max(@, Lease), ![s].token = t]
                           /\ slot' = [slot EXCEPT ![p][s].st = "yes", ![p][s].token = t]
                ELSE /\ slot' = [slot EXCEPT ![p][s] = [Nothing EXCEPT !.st = "no"]]
                     /\ UNCHANGED srv
             /\ UNCHANGED <<proc, top, fell, restarts>>

(* A grant becomes a part, which is trusted from the moment when its own   *)
(* request was sent. A grant of a round that is lost is given back (its    *)
(* ticket is withdrawn, as in Mutex.tla). Code: quorumAcquire.answered.    *)
Answer(p, s) ==
  /\ slot[p][s].st \in {"yes", "no"} /\ proc[p].st \in {"asks", "raises"}
  /\ slot' = [slot EXCEPT ![p][s] =
       IF @.st = "no" THEN Nothing
       ELSE IF @.age < Lease THEN [@ EXCEPT !.st = "part", !.trust = Lease - slot[p][s].age, !.age = 0]
       ELSE [Nothing EXCEPT !.st = "back"]]
  /\ UNCHANGED <<srv, proc, top, fell, restarts>>

(* A grant that comes when the lease exists joins it, once the server      *)
(* knows the token (raise.lua runs before), while the whole is trusted.    *)
(* Otherwise it is given back. Code: quorumAcquire.admit,                  *)
(* compositeLease.join, raise.lua.                                         *)
Admit(p, s) ==
  /\ slot[p][s].st \in {"yes", "no"} /\ proc[p].st = "holds"
  /\ IF slot[p][s].st = "yes" /\ Trusts(p) /\ slot[p][s].age < Lease
     THEN /\ slot' = [slot EXCEPT ![p][s].st = "part", ![p][s].trust = Lease - slot[p][s].age, ![p][s].age = 0]
          /\ srv' = [srv EXCEPT ![s].token = Max(@, proc[p].token)]
     ELSE /\ slot' = [slot EXCEPT ![p][s] = IF @.st = "yes" THEN [Nothing EXCEPT !.st = "back"] ELSE Nothing]
          /\ UNCHANGED srv
  /\ UNCHANGED <<proc, top, fell, restarts>>
(* A server without a part in the lease is asked again. Code:              *)
(* quorumAcquire.complete, quorumAcquire.recruit.                          *)
AskAgain(p, s) == /\ Again /\ Trusts(p) /\ slot[p][s].st = "none"
                  /\ slot' = [slot EXCEPT ![p][s].st = "asks"]
                  /\ UNCHANGED <<srv, proc, top, fell, restarts>>

(* A majority is the lease. With fencing its token is the largest of its   *)
(* parts, and all servers of the majority have to know it first. Code:     *)
(* quorumAcquire.win, quorumAcquire.raise.                                 *)
Largest(p) == CHOOSE t \in {slot[p][s].token : s \in Parts(p)} : \A s \in Parts(p) : slot[p][s].token <= t
Elected(p) == /\ proc[p].st = "asks" /\ Cardinality(Parts(p)) >= Most
              /\ proc' = [proc EXCEPT ![p].st = "raises", ![p].token = Largest(p)]
              /\ UNCHANGED <<srv, slot, top, fell, restarts>>

(* One server learns the token. slot.token is what this server is known to *)
(* know. Code: quorumAcquire.writeToken, raise.lua.                        *)
Raise(p, s) == /\ Fenced /\ proc[p].st = "raises" /\ slot[p][s].st = "part" /\ srv[s].away = 0
               /\ slot[p][s].token < proc[p].token
               /\ srv' = [srv EXCEPT ![s].token = Max(@, proc[p].token)]
               /\ slot' = [slot EXCEPT ![p][s].token = proc[p].token]
               /\ UNCHANGED <<proc, top, fell, restarts>>
(* The call has its lease. Code: quorumAcquire.win, quorumAcquire.compose. *)
Win(p) == /\ proc[p].st = "raises" /\ Cardinality(Parts(p)) >= Most
          /\ \A s \in Parts(p) : slot[p][s].token >= proc[p].token
          /\ proc' = [proc EXCEPT ![p].st = "holds"]
          /\ fell' = (fell \/ (Fenced /\ proc[p].token <= top))
          /\ top' = Max(top, proc[p].token)
          /\ UNCHANGED <<srv, slot, restarts>>

(* The round is lost, or the lease ends: all grants are given back, and    *)
(* later ones when they come. A lease ends when it is unlocked, and when   *)
(* too few of its parts are trusted. Code: quorumAcquire.lost,             *)
(* compositeLease.Unlock, compositeLease.PartEnded.                        *)
End(p) == /\ proc[p].st # "idle"
          /\ proc' = [proc EXCEPT ![p] = [st |-> "idle", token |-> 0]]
          /\ slot' = [slot EXCEPT ![p] = [s \in Servers |->
               CASE @[s].st \in {"yes", "part"} -> [Nothing EXCEPT !.st = "back"]
                 [] @[s].st = "no" -> Nothing
                 [] OTHER -> @[s]]]
          /\ UNCHANGED <<srv, top, fell, restarts>>
(* The answer to a round that is over. Code: quorumAcquire.answered.       *)
TooLate(p, s) == /\ proc[p].st = "idle" /\ slot[p][s].st \in {"yes", "no"}
                 /\ slot' = [slot EXCEPT ![p][s] = IF @.st = "yes" THEN [Nothing EXCEPT !.st = "back"] ELSE Nothing]
                 /\ UNCHANGED <<srv, proc, top, fell, restarts>>

(* One server runs the release. Code: release.lua.                         *)
Release(p, s) == /\ slot[p][s].st = "back" /\ srv[s].away = 0
                 /\ srv' = IF srv[s].owner = p THEN [srv EXCEPT ![s].owner = None, ![s].left = 0] ELSE srv
                 /\ slot' = [slot EXCEPT ![p][s] = Nothing]
                 /\ UNCHANGED <<proc, top, fell, restarts>>

-----------------------------------------------------------------------------
(* The watchdog renews each part by itself, as in Mutex.tla. So the lease  *)
(* can go on with another majority than the one with which it began. Code: *)
(* watchdog.Watchdog.send.                                                 *)
Renew(p, s) == /\ Renewing /\ proc[p].st = "holds" /\ s \in Parts(p) /\ slot[p][s].renew = "no"
               /\ slot' = [slot EXCEPT ![p][s].renew = "sent", ![p][s].of = 0]
               /\ UNCHANGED <<srv, proc, top, fell, restarts>>
(* One server runs the renewal. A part that is gone is replaced. Code:     *)
(* renew.lua, quorumAcquire.replace.                                       *)
RunRenew(p, s) == /\ slot[p][s].renew = "sent" /\ srv[s].away = 0
                  /\ IF srv[s].owner = p
                     THEN /\ srv' = [srv EXCEPT ![s].left = Max(@, Lease)]
                          /\ slot' = [slot EXCEPT ![p][s].renew = "done"]
                     ELSE /\ slot' = [slot EXCEPT ![p][s] = [Nothing EXCEPT !.st = "back"]]  \* quorumAcquire.replace
                          /\ UNCHANGED srv
                  /\ UNCHANGED <<proc, top, fell, restarts>>
(* The renewal is confirmed. Code: watchdog.Watchdog.confirm.              *)
Renewed(p, s) == /\ slot[p][s].renew = "done"
                 /\ slot' = [slot EXCEPT ![p][s].renew = "no", ![p][s].of = 0,
                                         ![p][s].trust = Max(@, Lease - slot[p][s].of)]
                 /\ UNCHANGED <<srv, proc, top, fell, restarts>>
(* The trust in a part is over. Code: watchdog.Watchdog.pass,              *)
(* compositeLease.PartEnded.                                               *)
PartLost(p, s) == /\ slot[p][s].st = "part" /\ slot[p][s].trust = 0
                  /\ slot' = [slot EXCEPT ![p][s] = [Nothing EXCEPT !.st = "back"]]
                  /\ UNCHANGED <<srv, proc, top, fell, restarts>>

-----------------------------------------------------------------------------
(* A server comes back without its data. Its clock has gone on, so its     *)
(* tokens are not smaller than before. Environment: the server.            *)
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

(* For a lease that is trusted, a majority of the servers has the same     *)
(* owner, for as long.                                                     *)
InvTruth == \A p \in Procs : Trusts(p) =>
  Cardinality({s \in Parts(p) : srv[s].owner = p /\ srv[s].left >= slot[p][s].trust}) >= Most

(* The token of a lease is larger than that of every earlier one. *)
InvTokens == ~fell
=============================================================================
