----------------------------- MODULE MutexLive -----------------------------
(***************************************************************************)
(* No wake-up is lost: which steps of Mutex.tla happen eventually, and     *)
(* what follows from that.                                                 *)
(*                                                                         *)
(* Without a bound on the age of a message no waiter is promised anything: *)
(* each hand-over could arrive when its lease is over. So this module      *)
(* looks at the times in which the network works: no time passes while a   *)
(* message is under way.                                                   *)
(***************************************************************************)
EXTENDS Mutex

(* No message is late, so a process waits for the answer that is under     *)
(* way. No process is late: it renews its lease, and releases what no      *)
(* waiter wants any more, before a lease is over.                          *)
Timely == /\ Tick => /\ net = {}
                     /\ \A p \in Procs : proc[p].st = "held" => proc[p].trust > 1
                     /\ \A g \in gone : g.until # -1
          /\ \A p \in Procs : Unknown(p) => ~\E m \in net : m.o = Own(p) /\ m.kind \in {"acquire", "granted", "refused"}

(* A server that knows its listeners hands the lock over to the first      *)
(* process in the wait queue: no process dies here, so each one listens.   *)
InOrder == srv'.how = "handed" /\ srv'.owner # srv.owner => srv'.owner = srv.line[1]

(* Time passes. A process asks again when its timer fires, unlocks, and    *)
(* gives back. The server runs a request, and an answer arrives. Each of   *)
(* these happens eventually if it can happen again and again. No process   *)
(* has to give up, and none has to begin. One message of a process stands  *)
(* for each of its messages only if one is under way at a time: MaxNet is  *)
(* 1.                                                                      *)
Of(p, A(_)) == \E m \in net : m.o[1] = p /\ A(m)
Fairness == /\ SF_vars(Tick /\ Timely)
            /\ \A p \in Procs : /\ SF_vars(Again(p)) /\ SF_vars(Unlock(p))
                                /\ SF_vars(Of(p, Run) /\ InOrder) /\ SF_vars(Of(p, Answer))
                                /\ SF_vars(\E g \in gone : g.o[1] = p /\ GiveBack(g))
ASSUME MaxNet = 1
FairSpec == Init /\ [][Next /\ Timely /\ InOrder]_vars /\ Fairness

(* A process that waits gets the lock, or gives up.                        *)
Served == \A p \in Procs : (proc[p].st \in Claiming) ~> (proc[p].st \notin Claiming)
=============================================================================
