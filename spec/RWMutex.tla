------------------------------ MODULE RWMutex ------------------------------
(***************************************************************************)
(* Whose turn it is at a read-write lock: THE RULE of scripts/rw.lua.      *)
(* Mutex.tla says how to read a module.                                    *)
(*                                                                         *)
(* The trust of a lease and the withdrawal of a ticket are as in           *)
(* Mutex.tla, and left out here. Each script is one step together with its *)
(* answer. Messages to waiters are hints, since waiters ask again by their *)
(* timers. What is left is the rule: which process must not have the lock, *)
(* in favour of which other one, and for how long. A turn that counts ends *)
(* eventually (TurnEnds), and so does the lease of a dead process          *)
(* (Expire).                                                               *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS
  Procs,
  Writers,    \* the processes that write; the others read
  Deaths,     \* the largest number of processes that die
  Known,      \* TRUE: the server knows that a dead process does not listen
  Java,       \* TRUE: programs with Redisson compete
  None

VARIABLES
  lock,       \* mode: free, read or write; by: its holders
  queue,      \* the two wait queues: read and write
  turn,       \* whose it is, the side before it, the processes that were called and have not come, and whether it counts
  proc,       \* idle, waits, has, dead
  deaths

vars == <<lock, queue, turn, proc, deaths>>

Side(p) == IF p \in Writers THEN "write" ELSE "read"
Other(side) == IF side = "write" THEN "read" ELSE "write"
NoTurn == [whose |-> "none", last |-> "none", called |-> {}, on |-> FALSE]
Counts(t) == t.on /\ (t.whose = "redisson" \/ t.called # {})
Listed(line, p) == \E i \in 1..Len(line) : line[i] = p
Without(line, p) == SelectSeq(line, LAMBDA x : x # p)
Out(q, p) == [q EXCEPT ![Side(p)] = Without(@, p)]
Stands(q, p) == IF Listed(q[Side(p)], p) THEN q ELSE [q EXCEPT ![Side(p)] = Append(@, p)]
Hears(p) == proc[p].st # "dead" \/ ~Known

Init == /\ lock = [mode |-> "free", by |-> {}]
        /\ queue = [read |-> <<>>, write |-> <<>>]
        /\ turn = NoTurn
        /\ proc = [p \in Procs |-> [st |-> "idle"]]
        /\ deaths = Deaths

-----------------------------------------------------------------------------
(* CHOOSE. The result of calling a side is a record: the wait queues and   *)
(* the turn after it, whether other processes than the asking one were     *)
(* called (others), and whether the asking one was (mine).                 *)

(* All processes that wait to read. Code: rw.lua/call_readers.             *)
CallReaders(q, t, asker) ==
  LET line == q.read
      called == {line[i] : i \in {j \in 1..Len(line) : line[j] # asker /\ Hears(line[j])}}
      mine == Listed(line, asker)
  IN [q |-> [q EXCEPT !.read = <<>>], others |-> called # {}, mine |-> mine,
      t |-> IF mine \/ called # {} THEN [whose |-> "read", last |-> "read", called |-> called, on |-> TRUE] ELSE t]

(* The first process that waits to write and listens, or is the asking     *)
(* one. Code: rw.lua/call_writer.                                          *)
CallWriter(q, t, asker) ==
  LET line == q.write
      able == {i \in 1..Len(line) : line[i] = asker \/ Hears(line[i])}
  IN IF able = {}
     THEN [q |-> [q EXCEPT !.write = <<>>], others |-> FALSE, mine |-> FALSE, t |-> t]
     ELSE LET k == CHOOSE i \in able : \A j \in able : i <= j
              mine == line[k] = asker
          IN [q |-> [q EXCEPT !.write = SubSeq(@, k + 1, Len(@))], others |-> ~mine, mine |-> mine,
              t |-> [whose |-> "write", last |-> "write", called |-> IF mine THEN {} ELSE {line[k]}, on |-> ~mine]]

Call(side, q, t, asker) == IF side = "read" THEN CallReaders(q, t, asker) ELSE CallWriter(q, t, asker)

(* The side that was not last comes first. Code: rw.lua/choose.            *)
Choose(q, t, asker) ==
  LET first == IF t.last = "write" THEN "read" ELSE "write"
      one == Call(first, q, t, asker)
  IN IF one.others \/ one.mine THEN one
     ELSE LET two == Call(Other(first), one.q, t, asker)
          IN IF two.others \/ two.mine THEN two ELSE [two EXCEPT !.t = NoTurn]

-----------------------------------------------------------------------------
(* A process asks, by the table of THE RULE. Code: LineCore.Ask,           *)
(* LineCore.Settle, rw_read.lua, rw_write.lua, rw.lua/refused.             *)
Has(p, q, t) == /\ lock' = [mode |-> Side(p), by |-> lock.by \cup {p}]
                /\ queue' = q /\ turn' = t
                /\ proc' = [proc EXCEPT ![p].st = "has"]
Waits(p, q, t) == /\ queue' = q /\ turn' = t
                  /\ proc' = [proc EXCEPT ![p].st = "waits"]
                  /\ UNCHANGED lock
Ask(p) ==
  /\ proc[p].st \in {"idle", "waits"}
  /\ UNCHANGED deaths
  /\ IF lock.mode = "write" \/ (lock.mode = "read" /\ Side(p) = "write")
     THEN Waits(p, Stands(queue, p), turn)
     ELSE IF queue.read = <<>> /\ queue.write = <<>> /\ turn = NoTurn
     THEN Has(p, queue, turn)
     ELSE IF Counts(turn) /\ turn.whose = Side(p) /\ p \in turn.called
     THEN Has(p, Out(queue, p), [turn EXCEPT !.called = @ \ {p}])
     ELSE IF Side(p) = "read" /\ queue.write = <<>>
             /\ (IF Counts(turn) THEN turn.whose = "read" ELSE lock.mode = "read")
     THEN Has(p, Out(queue, p), turn)
     ELSE IF Counts(turn) \/ lock.mode = "read"
     THEN Waits(p, Stands(queue, p), turn)
     ELSE LET chosen == Choose(Stands(queue, p), turn, p)
          IN IF chosen.mine THEN Has(p, chosen.q, chosen.t) ELSE Waits(p, chosen.q, chosen.t)

(* FREED. A holder unlocks, and the last one chooses whose turn is next.   *)
(* Code: Grant.Unlock, rw_read_release.lua, rw_write_release.lua,          *)
(* rw.lua/freed.                                                           *)
Unlock(p) ==
  /\ proc[p].st = "has"
  /\ proc' = [proc EXCEPT ![p].st = "idle"]
  /\ IF lock.by # {p}
     THEN lock' = [lock EXCEPT !.by = @ \ {p}] /\ UNCHANGED <<queue, turn>>
     ELSE /\ lock' = [mode |-> "free", by |-> {}]
          /\ \/ LET chosen == Choose(queue, [turn EXCEPT !.last = Side(p)], None)
                IN queue' = chosen.q /\ turn' = chosen.t
             \/ /\ Java /\ ~(Side(p) = "write" /\ queue.read # <<>>)
                /\ turn' = [whose |-> "redisson", last |-> Side(p), called |-> {}, on |-> TRUE]
                /\ UNCHANGED queue
  /\ UNCHANGED deaths

(* LEAVE. A waiter leaves its wait queue. Code: LineCore.Leave,            *)
(* LineCore.Drop, rw.lua/leave.                                            *)
GiveUp(p) ==
  /\ proc[p].st = "waits"
  /\ proc' = [proc EXCEPT ![p].st = "idle"]
  /\ LET q == Out(queue, p)
         called == Counts(turn) /\ p \in turn.called
         t == IF called THEN [turn EXCEPT !.called = @ \ {p}] ELSE turn
     IN IF ~Listed(queue[Side(p)], p) /\ ~called
        THEN UNCHANGED <<queue, turn>>
        ELSE IF lock.mode = "free" /\ ~Counts(t)
        THEN LET chosen == Choose(q, t, None) IN queue' = chosen.q /\ turn' = chosen.t
        ELSE IF lock.mode = "read" /\ Side(p) = "write" /\ q.write = <<>>
        THEN LET all == CallReaders(q, t, None) IN queue' = all.q /\ turn' = all.t
        ELSE queue' = q /\ turn' = t
  /\ UNCHANGED <<lock, deaths>>

-----------------------------------------------------------------------------
(* A turn counts for 100 ms, or 500 ms. Environment: the clock of the      *)
(* server.                                                                 *)
TurnEnds == /\ turn.on
            /\ turn' = [turn EXCEPT !.on = FALSE]
            /\ UNCHANGED <<lock, queue, proc, deaths>>

(* A process dies. Its lease expires, and no script chooses a turn then.   *)
(* Environment: the process.                                               *)
Die(p) == /\ deaths > 0 /\ deaths' = deaths - 1
          /\ proc[p].st # "dead"
          /\ proc' = [proc EXCEPT ![p].st = "dead"]
          /\ UNCHANGED <<lock, queue, turn>>
(* The lease of a dead process expires. Environment: the server.           *)
Expire == /\ \E p \in lock.by : p \in Procs /\ proc[p].st = "dead"
          /\ LET live == {p \in lock.by : p \notin Procs \/ proc[p].st # "dead"}
             IN lock' = IF live = {} THEN [mode |-> "free", by |-> {}] ELSE [lock EXCEPT !.by = live]
          /\ UNCHANGED <<queue, turn, proc, deaths>>

(* A program with Redisson writes, and follows no turn. Environment:       *)
(* Redisson.                                                               *)
JavaTakes == /\ Java /\ lock.mode = "free"
             /\ lock' = [mode |-> "write", by |-> {None}]
             /\ UNCHANGED <<queue, turn, proc, deaths>>
JavaFrees == /\ lock.by = {None}
             /\ lock' = [mode |-> "free", by |-> {}]
             /\ UNCHANGED <<queue, turn, proc, deaths>>

Next == \/ \E p \in Procs : Ask(p) \/ Unlock(p) \/ GiveUp(p) \/ Die(p)
        \/ TurnEnds \/ Expire \/ JavaTakes \/ JavaFrees
Spec == Init /\ [][Next]_vars
Alike == Permutations(Writers) \cup Permutations(Procs \ Writers)

(* For liveness: a process that waits asks again, and eventually during    *)
(* its turn. A holder unlocks. Turns and leases end.                       *)
Fairness == /\ \A p \in Procs : /\ WF_vars(proc[p].st = "waits" /\ Ask(p)) /\ WF_vars(Unlock(p))
                                /\ SF_vars(proc[p].st = "waits" /\ Counts(turn) /\ p \in turn.called /\ Ask(p))
            /\ WF_vars(TurnEnds) /\ WF_vars(Expire) /\ WF_vars(JavaFrees)
FairSpec == Spec /\ Fairness

-----------------------------------------------------------------------------
Waiting == {p \in Procs : proc[p].st = "waits"}

(* One writer, or readers.                                                 *)
InvExclusion == /\ lock.mode = "write" => Cardinality(lock.by) = 1
                /\ lock.mode = "read" => \A p \in lock.by : Side(p) = "read"
                /\ lock.mode = "free" <=> lock.by = {}

(* No two processes yield to each other: if the lock is free and processes *)
(* wait, then in a turn that counts a process was called, or the turn is   *)
(* Redisson's; in no such turn, a process that asks gets the lock, or      *)
(* calls another one by asking.                                            *)
InvNoTie == lock.mode = "free" /\ Waiting # {} /\ ~Counts(turn) =>
  \A p \in Waiting : LET chosen == Choose(Stands(queue, p), turn, p) IN chosen.mine \/ chosen.t.called # {}

(* New readers do not pass a waiting writer: readers that get the lock     *)
(* while a writer waits were called before it.                             *)
InvCalled == \A p \in turn.called : Side(p) = turn.whose

(* Over time: a free lock for which processes wait is granted.             *)
Granted == (lock.mode = "free" /\ Waiting # {}) ~> (lock.mode # "free" \/ Waiting = {})
(* A process that waits gets the lock, gives up or dies.                   *)
Served == \A p \in Procs : (proc[p].st = "waits") ~> (proc[p].st # "waits")
=============================================================================
