------------------------------- MODULE Mutex -------------------------------
(***************************************************************************)
(* One mutex that processes of this library share through one server.      *)
(*                                                                         *)
(* How a Go programmer reads it: a state is one value for each of the      *)
(* variables below. An action says in which states it can happen and which *)
(* values the variables have after it: x' is x in the next state. The      *)
(* checker begins with Init, does each action that is possible, in every   *)
(* order, and checks in each state that the properties at the end hold.    *)
(*                                                                         *)
(* Each action names the code that does it: after "Code:" stand methods of *)
(* packages below runtime/internal, and scripts, with a function of the    *)
(* script behind a slash. A test of this directory checks that these       *)
(* names exist. After "Environment:" stands what the network, the clock,   *)
(* the server, an operator or a program with Redisson does.                *)
(*                                                                         *)
(* Time. All clocks run at one speed, and no process reads the clock of    *)
(* another one. So the module keeps no dates. It keeps how long ago        *)
(* something happened (age) and how long something lasts (left, trust).    *)
(* Tick is the passage of one unit of time. Ages beyond the longest lease  *)
(* make no difference and do not grow. So time has no end, and the number  *)
(* of states is finite.                                                    *)
(*                                                                         *)
(* A process that does nothing while others act is a stopped process: no   *)
(* action has to happen, except where MutexLive.tla says so.               *)
(*                                                                         *)
(* Names. Claim in a name is about the hand-over: Claim is its lease       *)
(* (handOverLease), and a process that is Claiming has a ticket that       *)
(* waits. The line is the wait queue.                                      *)
(*                                                                         *)
(* Left out are goroutines of one process (Grant.End passes the lock on    *)
(* among them without a request), leases of fixed length, which are leases *)
(* that are not renewed, batches, which are requests that are sent         *)
(* together, and the margin, by which the trust ends even earlier than     *)
(* here.                                                                   *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS
  Procs,      \* processes of this library, each one Client
  Numbers,    \* owner numbers of a process; one is used again when nothing knows it any more
  Lease,      \* what a request and a renewal ask for
  Claim,      \* handOverLease: the lease of a process that the lock is handed over to
  MaxNet,     \* messages that may be under way at a time
  Faults,     \* the largest number of faults of Kinds
  Kinds,      \* a subset of "lose", "repeat", "crash", "flush", "failover", "ahead", "back"
  Lossy,      \* TRUE: any message can be lost, besides the faults
  Prompt,     \* TRUE: the server runs no request that is as old as a lease
  Contended,  \* TRUE: the first request of a ticket can join the wait queue
  Java,       \* TRUE: a program with Redisson competes for the lock
  None        \* no owner

VARIABLES
  srv,        \* the server: the lock and its wait queue
  proc,       \* what each process knows
  net,        \* messages that are under way, in no order
  gone,       \* tickets without a waiter, which Redis has to forget
  copy,       \* the state of a replica: an earlier srv, or None
  lost,       \* owners whose grant the server has forgotten because of a fault
  fell,       \* TRUE once a fencing token was not larger than an earlier one
  left        \* number of faults that can still happen

vars == <<srv, proc, net, gone, copy, lost, fell, left>>

-----------------------------------------------------------------------------
(* Words *)

Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b

Owner(p, n) == <<p, n>>            \* "<uuid>:<n>", the field of the hash
Redisson == <<None, 0>>           \* the owner of the Java program
Own(p) == Owner(p, proc[p].n)      \* of the present ticket or grant of p

NoSight == 99                      \* no request of this ticket was refused yet

Listed(line, o) == \E i \in 1..Len(line) : line[i] = o
Without(line, o) == SelectSeq(line, LAMBDA x : x # o)
Drop(line, k) == SubSeq(line, k + 1, Len(line))

Free == srv.owner = None
Idle(s) == [s EXCEPT !.st = "idle", !.n = 0, !.made = 0, !.slack = NoSight,
                     !.asking = FALSE, !.doubt = FALSE, !.trust = 0]

(* A message has the same fields for each kind: kind, owner, age, which is *)
(* the time since the request was sent or since the hand-over, and one     *)
(* more number.                                                            *)
Msg(kind, o, age, arg) == [kind |-> kind, o |-> o, age |-> age, arg |-> arg]
Claiming == {"wants", "waits"}       \* waits: the ticket may stand in the wait queue
Requests == {"acquire", "renew", "release"}
Room == Cardinality(net) < MaxNet

(* Answers for which no process waits make no difference and are removed   *)
(* from net. Heard looks at proc and gone after the action, so Net stands  *)
(* at the end of an action.                                                *)
Heard(m) == LET p == m.o[1] IN
  CASE m.kind = "released" -> \E g \in gone' : g.o = m.o
    [] m.kind \in {"granted", "refused"} -> m.o[2] = proc'[p].n /\ proc'[p].asking
    [] m.kind = "handed" -> m.o[2] = proc'[p].n /\ proc'[p].st \in Claiming
    [] m.kind \in {"renewed", "notyours"} -> m.o[2] = proc'[p].n /\ proc'[p].st = "held"
    [] OTHER -> TRUE
Net(messages) == net' = {m \in messages : Heard(m)}

(* A number is new when nothing refers to it. The code counts up and uses  *)
(* no number again. Code: Mutex.TicketFor.                                 *)
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
            line |-> <<>>,       \* the wait queue
            how |-> "free",      \* how the owner got it: asked or handed
            kept |-> TRUE,       \* the counter of fencing tokens is there
            since |-> 1]         \* ticks of its clock since the last token, at most 1

Init == /\ srv = Server0
        /\ proc = [p \in Procs |->
             [st |-> "idle",     \* idle, wants, waits (was refused), held, dead
              n |-> 0,           \* the number of its ticket or grant
              made |-> 0,        \* age of the ticket
              slack |-> NoSight, \* of the sighting: how long its last refused request was under way
              asking |-> FALSE,  \* it waits for an answer
              doubt |-> FALSE,   \* OutcomeUnknown: the server may run a request without an answer
              trust |-> 0]]      \* for how long it trusts its grant
        /\ net = {} /\ gone = {} /\ copy = None /\ lost = {}
        /\ fell = FALSE /\ left = Faults

-----------------------------------------------------------------------------
(* Time *)

(* One unit of time passes. Environment: the clocks.                       *)
Older(m) == IF m.kind \in {"acquire", "granted", "renew", "renewed", "handed"}
            THEN [m EXCEPT !.age = Min(@ + 1, Lease)] ELSE m
Later(s) == LET l == Max(0, s.left - 1)
            IN [s EXCEPT !.left = l, !.since = Min(1, @ + 1),
                         !.owner = IF l = 0 THEN None ELSE @,
                         !.how = IF l = 0 THEN "free" ELSE @]
Tick == /\ srv' = Later(srv)                        \* the key expires
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

(* The first request of a new ticket. Its age counts from here. If another *)
(* owner had the lock a moment ago, the request joins the wait queue at    *)
(* once (1). Code: Mutex.TicketFor, LineCore.Prepare.                      *)
Begin(p) == /\ proc[p].st = "idle" /\ Room
            /\ \E n \in Numbers, line \in (IF Contended THEN {0, 1} ELSE {0}) :
                 /\ New(Owner(p, n)) /\ \A i \in Numbers : i < n => ~New(Owner(p, i))
                 /\ proc' = [proc EXCEPT ![p].st = IF line = 0 THEN "wants" ELSE "waits",
                                         ![p].n = n, ![p].asking = TRUE]
                 /\ lost' = {o \in lost : o[1] # p}
                 /\ UNCHANGED <<srv, gone, copy, fell, left>>
                 /\ Net(net \cup {Msg("acquire", Owner(p, n), 0, line)})

(* The process asks again, because of a timer, a message or a new          *)
(* subscription. A ticket that was refused joins the wait queue (1). A     *)
(* ticket that may stand there already leaves it when it gets the lock     *)
(* (2). Code: LineCore.Ask, LineCore.Prepare.                              *)
Again(p) == /\ proc[p].st \in Claiming /\ ~proc[p].asking /\ Room
            /\ \E line \in 0..2 :
                 /\ line = 0 => proc[p].st = "wants" /\ proc[p].slack = NoSight
                 /\ line = 1 => proc[p].st = "wants" /\ (Contended \/ proc[p].slack # NoSight)
                 /\ line = 2 => proc[p].st = "waits"
                 /\ proc' = [proc EXCEPT ![p].asking = TRUE, ![p].st = IF line = 0 THEN @ ELSE "waits"]
                 /\ UNCHANGED <<srv, gone, copy, lost, fell, left>>
                 /\ Net(net \cup {Msg("acquire", Own(p), 0, line)})

(* No answer came in time, or the connection broke: TicketCore.OutcomeUnknown. *)
(* Code: LineCore.Settle.                                                  *)
Unknown(p) == /\ proc[p].asking
              /\ proc' = [proc EXCEPT ![p].asking = FALSE, ![p].doubt = TRUE]
              /\ UNCHANGED <<srv, gone, copy, lost, fell, left>>
              /\ Net(net)

(* The request was granted. The trust counts from the moment when the      *)
(* request was sent. An answer that comes too late leaves the ticket with  *)
(* the lock and without a holder (TicketCore.UnclaimedGrant): the process asks *)
(* again or gives up. Code: LineCore.Settle, LineCore.Promote.             *)
Granted(m, p) ==
  /\ m.kind = "granted" /\ m.o = Own(p) /\ proc[p].asking /\ proc[p].st \in Claiming
  /\ IF m.age < Lease
     THEN proc' = [proc EXCEPT ![p].st = "held", ![p].trust = Lease - m.age,
                               ![p].asking = FALSE, ![p].made = 0, ![p].slack = NoSight]
     ELSE proc' = [proc EXCEPT ![p].asking = FALSE]
  /\ UNCHANGED <<srv, gone, copy, lost, fell, left>>
  /\ Net(net \ {m})

(* The request was refused. The answer has the time of the server when the *)
(* script ran: the sighting. slack is the longest time by which the server *)
(* can be ahead of what the process computes from it. Code:                *)
(* LineCore.Settle.                                                        *)
Refused(m, p) ==
  /\ m.kind = "refused" /\ m.o = Own(p) /\ proc[p].asking /\ proc[p].st \in Claiming
  /\ proc' = [proc EXCEPT ![p].asking = FALSE, ![p].slack = m.arg, ![p].made = 0]
  /\ UNCHANGED <<srv, gone, copy, lost, fell, left>>
  /\ Net(net \ {m})

(* Another process handed the lock over. No request of this process caused *)
(* that. The hand-over did not happen before the server had the time in    *)
(* the message, and the sighting gives the earliest local time for that.   *)
(* Without a sighting it did not happen before the ticket was made. Code:  *)
(* Ticket.Handed.                                                          *)
Handed(m, p) ==
  /\ m.kind = "handed" /\ m.o = Own(p) /\ proc[p].st \in Claiming
  /\ LET from == Max(0, IF proc[p].slack = NoSight THEN proc[p].made ELSE proc[p].slack + m.age)
     IN IF from < Claim
        THEN proc' = [proc EXCEPT ![p].st = "held", ![p].trust = Claim - from,
                                  ![p].made = 0, ![p].slack = NoSight]
        ELSE proc' = proc                           \* Ticket.promptWaiter
  /\ UNCHANGED <<srv, gone, copy, lost, fell, left>>
  /\ Net(net \ {m})

(* The process gives back what it has, or may have: see GiveBack below.    *)
Abandon(p, doubt) ==
  /\ gone' = gone \cup {[o |-> Own(p), doubt |-> proc[p].doubt \/ doubt, until |-> -1]}
  /\ proc' = [proc EXCEPT ![p] = Idle(@)]
  /\ UNCHANGED <<srv, copy, lost, fell, left>>

(* The last waiter leaves. The process waits for the answer to a request   *)
(* first. Code: LineCore.Leave, LineCore.Drop.                             *)
GiveUp(p) == /\ proc[p].st \in Claiming /\ ~proc[p].asking
             /\ Abandon(p, FALSE)
             /\ Net(net)

-----------------------------------------------------------------------------
(* A process that has the lock *)

(* The watchdog renews the lease or looks at it. More than one such        *)
(* request may be under way. Code: watchdog.Watchdog.send, renew.lua.      *)
Renew(p) == /\ proc[p].st = "held" /\ proc[p].trust > 0 /\ Room
            /\ UNCHANGED <<srv, proc, gone, copy, lost, fell, left>>
            /\ Net(net \cup {Msg("renew", Own(p), 0, 0)})

(* The trust counts from the moment when the renewal was sent. Code:       *)
(* watchdog.Watchdog.confirm.                                              *)
Renewed(m, p) ==
  /\ m.kind = "renewed" /\ m.o = Own(p) /\ proc[p].st = "held"
  /\ proc' = [proc EXCEPT ![p].trust = Max(@, Lease - m.age)]
  /\ UNCHANGED <<srv, gone, copy, lost, fell, left>>
  /\ Net(net \ {m})

(* The server has another owner, or none. Code: watchdog.Watchdog.Lose,    *)
(* Grant.Lost.                                                             *)
Lost(m, p) == /\ m.kind = "notyours" /\ m.o = Own(p) /\ proc[p].st = "held"
              /\ Abandon(p, proc[p].asking)
              /\ Net(net \ {m})

(* The trust is over. Redis may still have the lock for this owner. Code:  *)
(* watchdog.Watchdog.pass, watchdog.Watchdog.Check, Grant.Lost.            *)
RunOut(p) == /\ proc[p].st = "held" /\ proc[p].trust = 0
             /\ Abandon(p, TRUE)
             /\ Net(net)

(* The holder unlocks. Its owner is never used again. If the lock was      *)
(* handed over during a request, the release waits for the answer to that  *)
(* request. Code: Grant.Unlock, Mutex.SendRelease.                         *)
Unlock(p) == /\ proc[p].st = "held" /\ ~proc[p].asking
             /\ Abandon(p, FALSE)
             /\ Net(net)

(* The answer to a request arrives when the lock was handed over           *)
(* meanwhile: it changes nothing. Code: Mutex.Overtaken.                   *)
Settled(m, p) ==
  /\ m.kind \in {"granted", "refused"} /\ m.o = Own(p) /\ proc[p].st = "held" /\ proc[p].asking
  /\ proc' = [proc EXCEPT ![p].asking = FALSE]
  /\ UNCHANGED <<srv, gone, copy, lost, fell, left>>
  /\ Net(net \ {m})

-----------------------------------------------------------------------------
(* A ticket that is given back, or withdrawn.                              *)

(* The process releases the owner until the server answers. Code:          *)
(* Mutex.SendRelease, ReleaseOp.Answered, engine.Withdrawals.send,         *)
(* release.lua, free.lua.                                                  *)
GiveBack(g) == /\ Room /\ ~\E m \in net : m.o = g.o /\ m.kind \in {"release", "released"}
               /\ UNCHANGED <<srv, proc, gone, copy, lost, fell, left>>
               /\ Net(net \cup {Msg("release", g.o, 0, IF g.until = 0 THEN 1 ELSE 0)})

(* The server has answered a release. If a request of the owner may still  *)
(* be under way, the process releases the owner repeatedly for as long as  *)
(* a lease, counted from the first answer, and a last time after that.     *)
(* Code: ReleaseOp.Answered, engine.Withdrawals.answered.                  *)
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

(* The next token is the last one plus one, or the time in microseconds if *)
(* that is larger. So it is larger than all earlier ones if the counter    *)
(* exists, or if the clock has gone on since. Code: handover.lua/draw.     *)
Forgetful == Kinds \cap {"flush", "failover"} # {}     \* otherwise the counter always exists
Drawn(s) == IF Forgetful THEN [s EXCEPT !.kept = TRUE, !.since = 0] ELSE s
Falls == ~srv.kept /\ srv.since < 1

(* The first owner that asks gets a free lock. An owner that has the lock  *)
(* has it for the whole lease from now, and not for less than before.      *)
(* Code: acquire.lua, take.lua.                                            *)
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

(* A renewal moves the end of a lease to a later time only. Code:          *)
(* renew.lua.                                                              *)
RunRenew(m, kept) ==
  /\ m.kind = "renew"
  /\ UNCHANGED <<proc, gone, copy, lost, fell>>
  /\ IF srv.owner = m.o
     THEN /\ srv' = [srv EXCEPT !.left = Max(@, Lease), !.how = "asked"]
          /\ Net((net \ ({m} \ kept)) \cup {Msg("renewed", m.o, m.age, 0)})
     ELSE /\ srv' = srv
          /\ Net((net \ ({m} \ kept)) \cup {Msg("notyours", m.o, 0, 0)})

(* The first process in the wait queue that listens gets the lock with the *)
(* lease of a hand-over, and a message says so. The processes before it    *)
(* leave the wait queue. It is possible that no process listens, and that  *)
(* the server does not know of a dead one. Code: handover.lua/next_owner.  *)
(* For one lock without tokens pass.lua does this.                         *)
Passed(k) == [Drawn(srv) EXCEPT !.owner = srv.line[k], !.left = Claim, !.how = "handed",
                                !.line = Drop(@, k)]
Opened == [srv EXCEPT !.owner = None, !.left = 0, !.how = "free"]
Out(m, kept) == (net \ ({m} \ kept)) \cup {Msg("released", m.o, 0, m.arg)}

(* A release. An owner that does not have the lock leaves the wait queue.  *)
(* Code: release.lua, free.lua.                                            *)
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
          \/ /\ Java                                 \* the turn of Redisson's waiters (ticket.startAfter)
             /\ srv' = Opened
             /\ Net(Out(m, kept)) /\ UNCHANGED fell
     ELSE /\ srv' = [srv EXCEPT !.line = Without(@, m.o)]
          /\ Net(Out(m, kept)) /\ UNCHANGED fell

-----------------------------------------------------------------------------
(* A program with Redisson takes a free lock, whatever stands in the wait  *)
(* queue, and frees its own. Environment: Redisson.                        *)
JavaTakes == /\ Java /\ Free
             /\ srv' = [srv EXCEPT !.owner = Redisson, !.left = Lease, !.how = "asked"]
             /\ UNCHANGED <<proc, net, gone, copy, lost, fell, left>>
JavaFrees == /\ srv.owner = Redisson
             /\ srv' = Opened
             /\ UNCHANGED <<proc, net, gone, copy, lost, fell, left>>

-----------------------------------------------------------------------------
(* The network, and faults *)

Fault(kind) == kind \in Kinds /\ left > 0 /\ left' = left - 1

(* A message is lost. Environment: the network.                            *)
Lose(m) == /\ (IF Lossy THEN UNCHANGED left ELSE Fault("lose"))
           /\ net' = net \ {m}
           /\ UNCHANGED <<srv, proc, gone, copy, lost, fell>>

(* The server runs a request and will run it again: it was sent twice.     *)
(* Environment: the network.                                               *)
Twice(m) == /\ m.kind \in Requests /\ Fault("repeat")
            /\ (RunAcquire(m, {m}) \/ RunRenew(m, {m}) \/ RunRelease(m, {m}))

(* A grant that the server has forgotten is no longer exclusive, even if   *)
(* its holder trusts it.                                                   *)
Forget(s) == IF srv.owner = None \/ srv.owner = Redisson \/ (s.owner = srv.owner /\ s.left >= srv.left)
             THEN lost ELSE lost \cup {srv.owner}

(* The process dies. Nothing acts for it any more. Environment: the        *)
(* process.                                                                *)
Crash(p) == /\ Fault("crash") /\ proc[p].st # "dead"
            /\ proc' = [proc EXCEPT ![p] = [Idle(@) EXCEPT !.st = "dead"]]
            /\ gone' = {g \in gone : g.o[1] # p}
            /\ UNCHANGED <<srv, copy, lost, fell>>
            /\ Net(net)

(* The server restarts without its data. Its clock goes on. Environment:   *)
(* the server.                                                             *)
Flush == /\ Fault("flush") /\ srv.since = 1
         /\ srv' = [Server0 EXCEPT !.kept = FALSE]
         /\ lost' = Forget(srv')
         /\ UNCHANGED <<proc, net, gone, copy, fell>>

(* A replica gets the state of the server, and replaces the server later.  *)
(* Environment: the server.                                                *)
Replicate == /\ "failover" \in Kinds /\ left > 0 /\ copy # srv
             /\ copy' = srv
             /\ UNCHANGED <<srv, proc, net, gone, lost, fell, left>>
(* The replica replaces the server. Environment: the server.               *)
Failover == /\ Fault("failover") /\ copy # None /\ srv.since = 1
            /\ srv' = [copy EXCEPT !.kept = FALSE, !.since = 1]
            /\ lost' = Forget(srv')
            /\ copy' = None
            /\ UNCHANGED <<proc, net, gone, fell>>

(* The clock of the server is set by one unit, ahead or back. Ages that    *)
(* come from that clock change with it, those by the clocks of processes   *)
(* do not. Environment: the clock of the server.                           *)
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
(* All steps of the server, and all arrivals of its answers. *)
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

Alike == Permutations(Procs)     \* processes are alike: states that differ only in their names are one state

-----------------------------------------------------------------------------
(* What holds in every state                                               *)

Trusts(p) == proc[p].st = "held" /\ proc[p].trust > 0

(* Two leases are never both trusted, except one that the server has       *)
(* forgotten because of a fault.                                           *)
InvExclusion == \A p, q \in Procs : p # q /\ Trusts(p) /\ Trusts(q) => Own(p) \in lost \/ Own(q) \in lost

(* For a lease that is trusted, the server has the same owner, for at      *)
(* least as long.                                                          *)
InvTruth == \A p \in Procs :
              Trusts(p) /\ Own(p) \notin lost => srv.owner = Own(p) /\ srv.left >= proc[p].trust

(* Each grant has a larger token than the one before.                      *)
InvTokens == ~fell

(* A process that is dead, or has left, keeps a lock that was handed over  *)
(* to it for no longer than the lease of a hand-over.                      *)
InvClaim == srv.how = "handed" => srv.left <= Claim

(* When a ticket is withdrawn, no lock stays with it for longer than that  *)
(* lease. This needs a server that runs each request once and within a     *)
(* lease, or not at all (Prompt), and a live process.                      *)
InvWithdrawn ==
  srv.owner \notin {None, Redisson} /\ proc[srv.owner[1]].st # "dead" =>
    \/ Wanted(srv.owner)
    \/ \E g \in gone : g.o = srv.owner
    \/ srv.how = "handed"
=============================================================================
