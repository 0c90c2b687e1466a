------------------------------- MODULE Mutex -------------------------------
(***************************************************************************)
(* One mutex, as processes of this library share it through one server.    *)
(*                                                                         *)
(* To read it as a Go programmer: a state is one value of each variable    *)
(* below. An action says in which states it may happen, and what the       *)
(* variables are afterwards: x' is x in the next state. The checker        *)
(* begins with Init, does whatever any action permits, in every order, and *)
(* looks at each state whether the properties at the end hold.             *)
(*                                                                         *)
(* Time. Clocks run at one speed, and nobody reads another one's. So no    *)
(* date is kept, only how long something is ago (age) or has to go (left,  *)
(* trust). Tick lets one unit pass. Ages beyond the longest lease make no  *)
(* difference and stay what they are. So there is no end of time here, and *)
(* still a finite number of states.                                        *)
(*                                                                         *)
(* A process that takes no step while others do is stopped: nothing here   *)
(* has to happen, except where MutexLive.tla says so.                      *)
(*                                                                         *)
(* What is left out: goroutines of one process (home.go hands the key on   *)
(* among them without a word to Redis), fixed leases, which are leases     *)
(* that are not renewed, batches, which are requests that are sent         *)
(* together, and the margin, by which trust ends even earlier than here.   *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS
  Procs,      \* processes of this library, each one Client
  Numbers,    \* owner numbers of a process; one is used again when nothing knows it any more
  Lease,      \* what a request and a renewal ask for
  Claim,      \* claimLease: what a process gets that is handed the lock
  MaxNet,     \* messages that may be under way at a time
  Faults,     \* how many faults of Kinds may happen
  Kinds,      \* a subset of "lose", "repeat", "crash", "flush", "failover", "ahead", "back"
  Lossy,      \* TRUE: any message may get lost, beside the faults
  Prompt,     \* TRUE: a request that takes as long as a lease is not done any more
  Contended,  \* TRUE: a claim may stand in line before it was ever refused
  Java,       \* TRUE: a program with Redisson races for the lock
  None        \* nobody

VARIABLES
  srv,        \* the server: the lock, and the line beside it
  proc,       \* what each process knows
  net,        \* messages under way, in no order
  gone,       \* claims that nobody wants any more, and that Redis is told to forget
  copy,       \* what a replica knows: srv as it was, or None
  lost,       \* owners whose grant a fault has made the server forget
  fell,       \* TRUE once a fencing token was no larger than one before
  left        \* how many faults may still happen

vars == <<srv, proc, net, gone, copy, lost, fell, left>>

-----------------------------------------------------------------------------
(* Words *)

Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b

Owner(p, n) == <<p, n>>            \* "<uuid>:<n>", the field of the hash
Redisson == <<None, 0>>           \* the owner of the Java program
Own(p) == Owner(p, proc[p].n)      \* of the present claim or hold of p

NoSight == 99                      \* no request of this claim was refused yet

Listed(line, o) == \E i \in 1..Len(line) : line[i] = o
Without(line, o) == SelectSeq(line, LAMBDA x : x # o)
Drop(line, k) == SubSeq(line, k + 1, Len(line))

Free == srv.owner = None
Idle(s) == [s EXCEPT !.st = "idle", !.n = 0, !.made = 0, !.slack = NoSight,
                     !.asking = FALSE, !.doubt = FALSE, !.trust = 0]

(* A message has the same fields whatever it is: kind, owner, age since    *)
(* the request was sent (or since the hand-over was done), and one more    *)
(* number.                                                                 *)
Msg(kind, o, age, arg) == [kind |-> kind, o |-> o, age |-> age, arg |-> arg]
Claiming == {"wants", "waits"}       \* waits: it may stand in line
Requests == {"acquire", "renew", "release"}
Room == Cardinality(net) < MaxNet

(* Answers that nobody waits for any more make no difference, and are      *)
(* taken out of net. This looks at proc and gone after the action, so it   *)
(* stands at its end.                                                      *)
Heard(m) == LET p == m.o[1] IN
  CASE m.kind = "released" -> \E g \in gone' : g.o = m.o
    [] m.kind \in {"granted", "refused"} -> m.o[2] = proc'[p].n /\ proc'[p].asking
    [] m.kind = "handed" -> m.o[2] = proc'[p].n /\ proc'[p].st \in Claiming
    [] m.kind \in {"renewed", "notyours"} -> m.o[2] = proc'[p].n /\ proc'[p].st = "held"
    [] OTHER -> TRUE
Net(messages) == net' = {m \in messages : Heard(m)}

(* A number is new when nothing refers to it: claim.go counts up instead,  *)
(* and never comes back.                                                   *)
New(o) == /\ srv.owner # o /\ ~Listed(srv.line, o)
          /\ \A m \in net : m.o # o
          /\ \A g \in gone : g.o # o
          /\ copy # None => (copy.owner # o /\ ~Listed(copy.line, o))

Wanted(o) == \E p \in Procs : /\ o = Own(p)
                              /\ proc[p].st \in {"wants", "waits", "held"}

-----------------------------------------------------------------------------
(* The beginning *)

Server0 == [owner |-> None,      \* the field of the hash, while its key lives
            left |-> 0,          \* PTTL
            line |-> <<>>,       \* the list of those who wait
            how |-> "free",      \* how the owner came by it: asked or handed
            kept |-> TRUE,       \* the counter of fencing tokens is there
            since |-> 1]         \* ticks of its clock since the last token, 1 at most

Init == /\ srv = Server0
        /\ proc = [p \in Procs |->
             [st |-> "idle",     \* idle, wants, waits (was refused), held, dead
              n |-> 0,           \* the number of its claim or hold
              made |-> 0,        \* age of the claim
              slack |-> NoSight, \* sighting: how long its last request that was refused was on its way
              asking |-> FALSE,  \* an answer is waited for
              doubt |-> FALSE,   \* a request may be done without our knowing
              trust |-> 0]]      \* for how long what it holds is trusted
        /\ net = {} /\ gone = {} /\ copy = None /\ lost = {}
        /\ fell = FALSE /\ left = Faults

-----------------------------------------------------------------------------
(* Time *)

Older(m) == IF m.kind \in {"acquire", "granted", "renew", "renewed", "handed"}
            THEN [m EXCEPT !.age = Min(@ + 1, Lease)] ELSE m
Later(s) == LET l == Max(0, s.left - 1)
            IN [s EXCEPT !.left = l, !.since = Min(1, @ + 1),
                         !.owner = IF l = 0 THEN None ELSE @,
                         !.how = IF l = 0 THEN "free" ELSE @]
Tick == /\ srv' = Later(srv)                        \* Redis lets the key expire
        /\ copy' = IF copy = None THEN None ELSE Later(copy)
        /\ net' = {Older(m) : m \in net}
        /\ proc' = [p \in Procs |->
             [proc[p] EXCEPT !.trust = Max(0, @ - 1),
                !.made = IF proc[p].st \in Claiming /\ proc[p].slack = NoSight
                            THEN Min(@ + 1, Claim) ELSE 0]]
        /\ gone' = {[g EXCEPT !.until = IF @ > 0 THEN @ - 1 ELSE @] : g \in gone}
        /\ UNCHANGED <<lost, fell, left>>

-----------------------------------------------------------------------------
(* A process that wants the lock *)

(* home.claimFor and home.prepare, claim.go: the first request of a new    *)
(* claim. It is sent now: its age is counted from here. Where somebody     *)
(* else had the lock a moment ago it stands in line at once (1).           *)
Begin(p) == /\ proc[p].st = "idle" /\ Room
            /\ \E n \in Numbers, line \in (IF Contended THEN {0, 1} ELSE {0}) :
                 /\ New(Owner(p, n)) /\ \A i \in Numbers : i < n => ~New(Owner(p, i))
                 /\ proc' = [proc EXCEPT ![p].st = IF line = 0 THEN "wants" ELSE "waits",
                                         ![p].n = n, ![p].asking = TRUE]
                 /\ lost' = {o \in lost : o[1] # p}
                 /\ UNCHANGED <<srv, gone, copy, fell, left>>
                 /\ Net(net \cup {Msg("acquire", Owner(p, n), 0, line)})

(* home.ask, claim.go: by a timer, a message, or a new subscription. Who   *)
(* was refused stands in line (1); who may stand there already leaves it   *)
(* when the lock is free (2).                                              *)
Again(p) == /\ proc[p].st \in Claiming /\ ~proc[p].asking /\ Room
            /\ \E line \in 0..2 :
                 /\ line = 0 => proc[p].st = "wants" /\ proc[p].slack = NoSight
                 /\ line = 1 => proc[p].st = "wants" /\ (Contended \/ proc[p].slack # NoSight)
                 /\ line = 2 => proc[p].st = "waits"
                 /\ proc' = [proc EXCEPT ![p].asking = TRUE, ![p].st = IF line = 0 THEN @ ELSE "waits"]
                 /\ UNCHANGED <<srv, gone, copy, lost, fell, left>>
                 /\ Net(net \cup {Msg("acquire", Own(p), 0, line)})

(* No answer came in time, or the connection broke: claim.doubt.           *)
Unknown(p) == /\ proc[p].asking
              /\ proc' = [proc EXCEPT ![p].asking = FALSE, ![p].doubt = TRUE]
              /\ UNCHANGED <<srv, gone, copy, lost, fell, left>>
              /\ Net(net)

(* home.settle, claim.go: granted. Trust is counted from when the request  *)
(* was sent. An answer that comes too late leaves the claim with the lock  *)
(* and nobody told (claim.ours): it asks again or gives up.                *)
Granted(m, p) ==
  /\ m.kind = "granted" /\ m.o = Own(p) /\ proc[p].asking /\ proc[p].st \in Claiming
  /\ IF m.age < Lease
     THEN proc' = [proc EXCEPT ![p].st = "held", ![p].trust = Lease - m.age,
                               ![p].asking = FALSE, ![p].made = 0, ![p].slack = NoSight]
     ELSE proc' = [proc EXCEPT ![p].asking = FALSE]
  /\ UNCHANGED <<srv, gone, copy, lost, fell, left>>
  /\ Net(net \ {m})

(* home.settle, claim.go: refused. The answer says when it was done by the *)
(* server's clock: the sighting. slack is for how long at most the server  *)
(* was ahead of what the process reckons from it.                          *)
Refused(m, p) ==
  /\ m.kind = "refused" /\ m.o = Own(p) /\ proc[p].asking /\ proc[p].st \in Claiming
  /\ proc' = [proc EXCEPT ![p].asking = FALSE, ![p].slack = m.arg, ![p].made = 0]
  /\ UNCHANGED <<srv, gone, copy, lost, fell, left>>
  /\ Net(net \ {m})

(* home.handed, claim.go: another process gave it the lock. Nobody here    *)
(* sent the request that did it. It was not done before the server had the *)
(* time that the message says, and the sighting says when that was here at *)
(* the earliest. Without one, it was not before the claim was made.        *)
Handed(m, p) ==
  /\ m.kind = "handed" /\ m.o = Own(p) /\ proc[p].st \in Claiming
  /\ LET from == Max(0, IF proc[p].slack = NoSight THEN proc[p].made ELSE proc[p].slack + m.age)
     IN IF from < Claim
        THEN proc' = [proc EXCEPT ![p].st = "held", ![p].trust = Claim - from,
                                  ![p].made = 0, ![p].slack = NoSight]
        ELSE proc' = proc                           \* home.remind: it asks
  /\ UNCHANGED <<srv, gone, copy, lost, fell, left>>
  /\ Net(net \ {m})

(* What p has, or may have, is given back: see GiveBack below.             *)
Abandon(p, doubt) ==
  /\ gone' = gone \cup {[o |-> Own(p), doubt |-> proc[p].doubt \/ doubt, until |-> -1]}
  /\ proc' = [proc EXCEPT ![p] = Idle(@)]
  /\ UNCHANGED <<srv, copy, lost, fell, left>>

(* home.leave and home.abandon, claim.go: nobody wants it any more. What   *)
(* is being asked is waited for.                                           *)
GiveUp(p) == /\ proc[p].st \in Claiming /\ ~proc[p].asking
             /\ Abandon(p, FALSE)
             /\ Net(net)

-----------------------------------------------------------------------------
(* A process that has the lock *)

(* watchdog.send: a renewal, or a look. More than one may be under way.    *)
Renew(p) == /\ proc[p].st = "held" /\ proc[p].trust > 0 /\ Room
            /\ UNCHANGED <<srv, proc, gone, copy, lost, fell, left>>
            /\ Net(net \cup {Msg("renew", Own(p), 0, 0)})

(* watchdog.confirm: trust is counted from when the renewal was sent.      *)
Renewed(m, p) ==
  /\ m.kind = "renewed" /\ m.o = Own(p) /\ proc[p].st = "held"
  /\ proc' = [proc EXCEPT ![p].trust = Max(@, Lease - m.age)]
  /\ UNCHANGED <<srv, gone, copy, lost, fell, left>>
  /\ Net(net \ {m})

(* watchdog.Lose, home.lose: the server does not know it any more.         *)
Lost(m, p) == /\ m.kind = "notyours" /\ m.o = Own(p) /\ proc[p].st = "held"
              /\ Abandon(p, proc[p].asking)
              /\ Net(net \ {m})

(* watchdog.pass and Check: trust has run out. Redis may still have it.    *)
RunOut(p) == /\ proc[p].st = "held" /\ proc[p].trust = 0
             /\ Abandon(p, TRUE)
             /\ Net(net)

(* hold.unlock and home.free: the owner is never used again. What was      *)
(* handed over while a request was under way waits for its answer first.   *)
Unlock(p) == /\ proc[p].st = "held" /\ ~proc[p].asking
             /\ Abandon(p, FALSE)
             /\ Net(net)

(* The answer to a request of a claim that was handed over meanwhile: it   *)
(* changes nothing (claim.settled).                                        *)
Settled(m, p) ==
  /\ m.kind \in {"granted", "refused"} /\ m.o = Own(p) /\ proc[p].st = "held" /\ proc[p].asking
  /\ proc' = [proc EXCEPT ![p].asking = FALSE]
  /\ UNCHANGED <<srv, gone, copy, lost, fell, left>>
  /\ Net(net \ {m})

-----------------------------------------------------------------------------
(* A claim that is given back, or withdrawn: giving.answered and           *)
(* Client.withdrawBy, release.go                                           *)

(* It is released until that is answered.                                  *)
GiveBack(g) == /\ Room /\ ~\E m \in net : m.o = g.o /\ m.kind \in {"release", "released"}
               /\ UNCHANGED <<srv, proc, gone, copy, lost, fell, left>>
               /\ Net(net \cup {Msg("release", g.o, 0, IF g.until = 0 THEN 1 ELSE 0)})

(* If a request of it may still be on its way, it is released again and    *)
(* again for as long as a lease, from the first answer. The last time is   *)
(* after that.                                                             *)
GivenBack(m) ==
  /\ m.kind = "released"
  /\ \E g \in gone :
       /\ g.o = m.o
       /\ gone' = IF ~g.doubt \/ m.arg = 1 THEN gone \ {g}
                  ELSE IF g.until = -1 THEN (gone \ {g}) \cup {[g EXCEPT !.until = Lease]}
                  ELSE gone
  /\ UNCHANGED <<srv, proc, copy, lost, fell, left>>
  /\ Net(net \ {m})

-----------------------------------------------------------------------------
(* The server. Each script is one step. *)

(* draw, handover.lua: the next token is one more than the last, or the    *)
(* time in microseconds if that is larger. So it is larger than all before *)
(* if the counter is there, or the clock has gone on since.                *)
Forgetful == Kinds \cap {"flush", "failover"} # {}     \* else the counter is always there
Drawn(s) == IF Forgetful THEN [s EXCEPT !.kept = TRUE, !.since = 0] ELSE s
Falls == ~srv.kept /\ srv.since < 1

(* acquire.lua, take.lua: a free lock is given to whoever asks. Who has it *)
(* has it for the whole lease from now, and not for less than it had.      *)
RunAcquire(m, kept) ==
  /\ m.kind = "acquire"
  /\ UNCHANGED <<proc, gone, copy, lost>>
  /\ ~Prompt \/ m.age < Lease
  /\ IF Free \/ srv.owner = m.o
     THEN /\ srv' = [Drawn(srv) EXCEPT !.owner = m.o, !.left = Max(@, Lease), !.how = "asked",
                          !.line = IF m.arg = 2 THEN Without(@, m.o) ELSE @]
          /\ fell' = (fell \/ Falls)
          /\ Net((net \ ({m} \ kept)) \cup {Msg("granted", m.o, m.age, 0)})
     ELSE /\ srv' = [srv EXCEPT !.line = IF m.arg = 0 \/ Listed(@, m.o) THEN @ ELSE Append(@, m.o)]
          /\ Net((net \ ({m} \ kept)) \cup {Msg("refused", m.o, 0, m.age)})
          /\ UNCHANGED fell

(* renew.lua: never to an earlier end.                                     *)
RunRenew(m, kept) ==
  /\ m.kind = "renew"
  /\ UNCHANGED <<proc, gone, copy, lost, fell>>
  /\ IF srv.owner = m.o
     THEN /\ srv' = [srv EXCEPT !.left = Max(@, Lease), !.how = "asked"]
          /\ Net((net \ ({m} \ kept)) \cup {Msg("renewed", m.o, m.age, 0)})
     ELSE /\ srv' = srv
          /\ Net((net \ ({m} \ kept)) \cup {Msg("notyours", m.o, 0, 0)})

(* next_owner, handover.lua: the first in line who listens gets the lock,  *)
(* for as long as a claim, and is told. Those before it leave the line.    *)
(* Nobody may listen, and a server may not know that one is dead.          *)
Passed(k) == [Drawn(srv) EXCEPT !.owner = srv.line[k], !.left = Claim, !.how = "handed",
                                !.line = Drop(@, k)]
Opened == [srv EXCEPT !.owner = None, !.left = 0, !.how = "free"]
Out(m, kept) == (net \ ({m} \ kept)) \cup {Msg("released", m.o, 0, m.arg)}

(* release.lua: an owner that does not have the lock leaves the line.      *)
RunRelease(m, kept) ==
  /\ m.kind = "release"
  /\ UNCHANGED <<proc, gone, copy, lost>>
  /\ IF srv.owner = m.o
     THEN \/ \E k \in 1..Len(srv.line) :
               /\ srv' = Passed(k)
               /\ Net(Out(m, kept) \cup {Msg("handed", srv.line[k], 0, 0)})
               /\ fell' = (fell \/ Falls)
          \/ /\ \A i \in 1..Len(srv.line) : proc[srv.line[i][1]].st = "dead"
             /\ srv' = [Opened EXCEPT !.line = <<>>]
             /\ Net(Out(m, kept)) /\ UNCHANGED fell
          \/ /\ Java                                 \* the turn of Redisson's waiters
             /\ srv' = Opened
             /\ Net(Out(m, kept)) /\ UNCHANGED fell
     ELSE /\ srv' = [srv EXCEPT !.line = Without(@, m.o)]
          /\ Net(Out(m, kept)) /\ UNCHANGED fell

-----------------------------------------------------------------------------
(* A program with Redisson races: it knows no line. *)

JavaTakes == /\ Java /\ Free
             /\ srv' = [srv EXCEPT !.owner = Redisson, !.left = Lease, !.how = "asked"]
             /\ UNCHANGED <<proc, net, gone, copy, lost, fell, left>>
JavaFrees == /\ srv.owner = Redisson
             /\ srv' = Opened
             /\ UNCHANGED <<proc, net, gone, copy, lost, fell, left>>

-----------------------------------------------------------------------------
(* The network, and faults *)

Fault(kind) == kind \in Kinds /\ left > 0 /\ left' = left - 1

(* A message is lost.                                                      *)
Lose(m) == /\ (IF Lossy THEN UNCHANGED left ELSE Fault("lose"))
           /\ net' = net \ {m}
           /\ UNCHANGED <<srv, proc, gone, copy, lost, fell>>

(* A request is done, and will be once more: it was resent.                *)
Twice(m) == /\ m.kind \in Requests /\ Fault("repeat")
            /\ (RunAcquire(m, {m}) \/ RunRenew(m, {m}) \/ RunRelease(m, {m}))

(* What the server has forgotten is nobody's, whoever trusts in it.        *)
Forget(s) == IF srv.owner = None \/ srv.owner = Redisson \/ (s.owner = srv.owner /\ s.left >= srv.left)
             THEN lost ELSE lost \cup {srv.owner}

(* The process dies. Nothing is done for it any more.                      *)
Crash(p) == /\ Fault("crash") /\ proc[p].st # "dead"
            /\ proc' = [proc EXCEPT ![p] = [Idle(@) EXCEPT !.st = "dead"]]
            /\ gone' = {g \in gone : g.o[1] # p}
            /\ UNCHANGED <<srv, copy, lost, fell>>
            /\ Net(net)

(* The server is restarted and knows nothing. Its clock goes on.           *)
Flush == /\ Fault("flush") /\ srv.since = 1
         /\ srv' = [Server0 EXCEPT !.kept = FALSE]
         /\ lost' = Forget(srv')
         /\ UNCHANGED <<proc, net, gone, copy, fell>>

(* A replica has what the server had, and takes over later.                *)
Replicate == /\ "failover" \in Kinds /\ left > 0 /\ copy # srv
             /\ copy' = srv
             /\ UNCHANGED <<srv, proc, net, gone, lost, fell, left>>
Failover == /\ Fault("failover") /\ copy # None /\ srv.since = 1
            /\ srv' = [copy EXCEPT !.kept = FALSE, !.since = 1]
            /\ lost' = Forget(srv')
            /\ copy' = None
            /\ UNCHANGED <<proc, net, gone, fell>>

(* The clock of the server is set by one unit, ahead or back. Ages that it *)
(* tells of change with it, those by our own clocks do not.                *)
Jump(by) ==
  /\ srv' = LET l == IF Free THEN 0 ELSE Max(0, srv.left - by)
            IN [srv EXCEPT !.left = l, !.owner = IF l = 0 THEN None ELSE @,
                           !.how = IF l = 0 THEN "free" ELSE @,
                           !.since = Min(1, @ + by)]
  /\ lost' = IF by > 0 THEN Forget(srv') ELSE lost
  /\ proc' = [p \in Procs |-> [proc[p] EXCEPT !.slack = IF @ = NoSight THEN @ ELSE @ - by]]
  /\ net' = {IF m.kind = "refused" THEN [m EXCEPT !.arg = @ - by]
             ELSE IF m.kind = "handed" THEN [m EXCEPT !.age = @ + by] ELSE m : m \in net}
  /\ UNCHANGED <<gone, copy, fell>>
Ahead == Fault("ahead") /\ Jump(1)
Back == Fault("back") /\ srv.left < 2 * Lease /\ Jump(-1)

-----------------------------------------------------------------------------
Run(m) == (RunAcquire(m, {}) \/ RunRenew(m, {}) \/ RunRelease(m, {})) /\ UNCHANGED left
Answer(m) == \/ \E p \in Procs : Granted(m, p) \/ Refused(m, p) \/ Handed(m, p) \/ Renewed(m, p)
                                 \/ Lost(m, p) \/ Settled(m, p)
             \/ GivenBack(m)

Next == \/ Tick
        \/ \E p \in Procs : Begin(p) \/ Again(p) \/ Unknown(p) \/ GiveUp(p) \/ Renew(p)
                            \/ RunOut(p) \/ Unlock(p) \/ Crash(p)
        \/ \E m \in net : Run(m) \/ Answer(m) \/ Lose(m)
        \/ \E m \in net : Twice(m)
        \/ \E g \in gone : GiveBack(g)
        \/ JavaTakes \/ JavaFrees
        \/ Flush \/ Replicate \/ Failover \/ Ahead \/ Back

Spec == Init /\ [][Next]_vars

Alike == Permutations(Procs)     \* processes are alike: states that differ in their names are one

-----------------------------------------------------------------------------
(* What must be so in every state *)

Trusts(p) == proc[p].st = "held" /\ proc[p].trust > 0

(* Two leases are never both trusted, except one that a fault has made the *)
(* server forget.                                                          *)
InvExclusion == \A p, q \in Procs : p # q /\ Trusts(p) /\ Trusts(q) => Own(p) \in lost \/ Own(q) \in lost

(* Who is trusted the server agrees with, for at least as long.            *)
InvTruth == \A p \in Procs :
              Trusts(p) /\ Own(p) \notin lost => srv.owner = Own(p) /\ srv.left >= proc[p].trust

(* Tokens rise with each grant.                                            *)
InvTokens == ~fell

(* Who is dead, or gone, has what it was handed for no longer than a claim.*)
InvClaim == srv.how = "handed" => srv.left <= Claim

(* When a claim is withdrawn, nothing stays with it for longer than that.  *)
(* For this requests have to be done within a lease or not at all          *)
(* (Prompt), once each, and the process must live.                         *)
InvWithdrawn ==
  srv.owner \notin {None, Redisson} /\ proc[srv.owner[1]].st # "dead" =>
    \/ Wanted(srv.owner)
    \/ \E g \in gone : g.o = srv.owner
    \/ srv.how = "handed"
=============================================================================
