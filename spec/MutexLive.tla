----------------------------- MODULE MutexLive -----------------------------
(***************************************************************************)
(* That nobody waits for nothing: what of Mutex.tla has to happen some     *)
(* time, and what comes of that.                                           *)
(*                                                                         *)
(* Without a bound on how late a message may be, no waiter can be promised *)
(* anything: each hand-over could arrive when its claim is over. So this   *)
(* module looks at what happens while the network is in order: no time     *)
(* passes while a message is under way.                                    *)
(***************************************************************************)
EXTENDS Mutex

(* No message is late, so a process waits for the answer that is under     *)
(* way. No process is late either: it renews what it holds, and releases   *)
(* what nobody wants any more, before a lease is over.                     *)
Timely == /\ Tick => /\ net = {}
                     /\ \A p \in Procs : proc[p].st = "held" => proc[p].trust > 1
                     /\ \A g \in gone : g.until # -1
          /\ \A p \in Procs : Unknown(p) => ~\E m \in net : m.o = Own(p) /\ m.kind \in {"acquire", "granted", "refused"}

(* A server that knows its listeners gives the lock to the first in line:  *)
(* no process dies here, so each one listens.                              *)
InOrder == srv'.how = "handed" /\ srv'.owner # srv.owner => srv'.owner = srv.line[1]

(* Time passes; a process asks again when its timer rings, ends what it    *)
(* has and tells Redis; a request is done, an answer comes. Each of these  *)
(* happens some time if it may happen again and again. Nobody has to give  *)
(* up, and nobody has to begin. That a message of a process is done stands *)
(* for each of them only where one is under way at a time: MaxNet is 1.    *)
Of(p, A(_)) == \E m \in net : m.o[1] = p /\ A(m)
Fairness == /\ SF_vars(Tick /\ Timely)
            /\ \A p \in Procs : /\ SF_vars(Again(p)) /\ SF_vars(Unlock(p))
                                /\ SF_vars(Of(p, Run) /\ InOrder) /\ SF_vars(Of(p, Answer))
                                /\ SF_vars(\E g \in gone : g.o[1] = p /\ GiveBack(g))
ASSUME MaxNet = 1
FairSpec == Init /\ [][Next /\ Timely /\ InOrder]_vars /\ Fairness

(* Whoever waits is served, or gives up.                                   *)
Served == \A p \in Procs : (proc[p].st \in Claiming) ~> (proc[p].st \notin Claiming)
=============================================================================
