/*
 * The trust core of Mutex.tla again, for Spin, with more processes and messages: for a lease that is
 * trusted, the server has the same owner for at least as long. So no two owners are trusted at once.
 * The names are those of Mutex.tla. Left out are tokens, clocks that are set, hand-overs to a process
 * without a sighting, what a process knows besides its trust, and the place in the wait queue that an owner
 * keeps when an older request, which does not say that it may stand there, gets it the lock.
 *
 * As in Mutex.tla, ages are kept and no dates, so time has no end, nor has the number of grants.
 *
 * Apart from that, the module permits all that Mutex.tla permits, and more. So what holds here also
 * holds there, and the states are few:
 * - Only the owners of the processes are kept. When a process gives up its owner (it unlocks,
 *   withdraws, sees the end of its trust, or dies), this owner becomes a stranger. A program with
 *   Redisson is a stranger, too. If a lease is left and no process has its owner, then a stranger has
 *   the lock. At any time, a stranger can take a free lock, keep it, free it, or hand it over to the
 *   wait queue or to another stranger. Late requests and releases of such owners can do no more than
 *   that, so no messages of strangers are kept, and no places: a stranger can be anywhere in the
 *   wait queue.
 * - A process takes each answer to its owner, also to a request for which it no longer waits.
 * - The server can run a request that is under way any number of times.
 * - Each request to acquire can join the wait queue or not.
 * - A fault replaces the state of the server by any other: an empty one (a restart without data), an
 *   older one (a replica that becomes the master), or one that never was. If the server forgets a
 *   grant or a part of its lease, the property does not cover its owner, which becomes a stranger.
 *
 * Some states can do all that others can do, and the others are left out:
 * - A message can be lost at any time, so a state with more messages can do all that a state with
 *   fewer can do, until there is no room for another message. So it is enough that a message is lost
 *   when N are under way. For the same reason, a request that the server has run stays under way
 *   while there is room.
 * - A longer trust permits more than a shorter one, and violates the property sooner. So of the
 *   messages of one kind and one owner, the youngest is enough.
 * - settle removes messages and ages that make no difference.
 *
 * All that concerns an owner is in its record, and settle sorts the records: states that differ only
 * in the names of owners or processes are one state.
 *
 * Each step of the loop is one action. The guard in front of a step says which owner or message
 * it is for.
 */
#ifndef L
#define L 3        /* lease, at most 3 */
#endif
#ifndef C
#define C 2        /* the lease of a hand-over, less than L */
#endif
#ifndef F
#define F 1        /* faults */
#endif
#ifndef N
#define N 3        /* messages that can be under way */
#endif
#ifndef P
#define P 3        /* processes, at most 4 */
#endif

#define NONE  0    /* the process has no owner */
#define WANTS 1
#define HELD  2

/* The messages of an owner are a set of bits. a is the age of a request, or of what an answer is about. */
#define ACQUIRE(a) (1<<(a))
#define RENEW(a)   (1<<(4+(a)))
#define GRANTED(a) (1<<(8+(a)))
#define RENEWED(a) (1<<(11+(a)))
#define HANDED(a)  (1<<(14+(a)))       /* a: the time since the hand-over */
#define REFUSED(u) (1<<(17+(u)))       /* u: how long the request was under way */

typedef Owner {
  byte st;              /* of the process */
  byte trust;
  byte base;            /* the slack of the sighting; C if there is none */
  byte place;           /* in the wait queue, from 1 on; strangers do not count */
  bit has;              /* the server has it as the owner */
  int net               /* messages */
}
Owner z[P];
byte left = 0;          /* of the lease that the server has granted */
byte under = 0;         /* messages under way */
byte faults = F;
byte i, x;              /* used within a step; 0 between steps */

#define ROOM (under < N)

/* settle brings a state into its canonical form after each step. */
c_code {
#define GROUP(from,n) (((1<<(n))-1)<<(from))
  static int youngest(int net, int from, int n) { /* of the messages of a kind */
    int all = net & GROUP(from,n);
    return (net & ~GROUP(from,n)) | (all & -all);
  }
  static void settle(void) {
    int k, j, a;
    now.under = 0; now.i = 0; now.x = 0;
    for (k = 0; k < P; k++) {
      struct Owner *o = &now.z[k], y;
      if (o->st == NONE) memset(o, 0, sizeof *o);
      if (o->st == WANTS) /* a sighting that is no better than the last one makes no difference */
        for (a = o->base; a < 3; a++) o->net &= ~REFUSED(a);
      if (o->st == HELD) {
        o->net &= ~(GROUP(8,3) | GROUP(14,6)); /* nothing waits for GRANTED, HANDED and REFUSED */
        if (o->net & GROUP(0,4)) o->net = (o->net & ~GROUP(0,4)) | ACQUIRE(0); /* so the age of the request makes no difference */
        for (a = 0; a < L; a++) /* nor does a renewal that makes the trust no longer, except at the server */
          if (L - a <= o->trust) {
            o->net &= ~RENEWED(a);
            if (o->net & RENEW(a)) o->net = (o->net & ~RENEW(a)) | RENEW(L);
          }
      }
      for (a = 0; a < 8; a += 4) o->net = youngest(o->net, a, 4);
      for (a = 8; a < 20; a += 3) o->net = youngest(o->net, a, 3);
      now.under += __builtin_popcount(o->net);
      y = *o;
      for (j = k; j > 0 && memcmp(&y, &now.z[j-1], sizeof y) > 0; j--) now.z[j] = now.z[j-1];
      now.z[j] = y;
    }
  }
}
#define SETTLE c_code { settle(); }

inline hold(k, t) { z[k].st = HELD; z[k].trust = t; z[k].base = 0 }
inline unlist(k) { x = z[k].place; z[k].place = 0; i = 0;
  do :: i < P -> if :: x > 0 && z[i].place > x -> z[i].place-- :: else fi; i++ :: else -> break od }
inline list(k) { if :: z[k].place==0 -> x = 1; i = 0;
       do :: i < P -> if :: z[i].place > 0 -> x++ :: else fi; i++ :: else -> break od;
       z[k].place = x
    :: else fi }
inline give(k, t) { i = 0; do :: i < P -> z[i].has = 0; i++ :: else -> break od; z[k].has = 1; left = t }

/* The messages of a kind when time has passed: requests that are as old as a lease stay so, and answers that nobody trusts any more are no
 * messages. from and n are the first bit and the number of bits. */
#define SOME(m,from,n)  ((m) & (((1<<(n))-1)<<(from)))
#define KEPT(m,from)    ((SOME(m,from,L)<<1) | ((m) & (1<<((from)+L))))
#define GONE(m,from,n)  (SOME(m,from,(n)-1)<<1)

/* One unit of time passes. Environment: the clocks. */
inline tick() {
  i = 0; do :: i < P ->
      if :: z[i].trust > 0 -> z[i].trust-- :: else fi;
      if :: left==1 -> z[i].has = 0 :: else fi;
      z[i].net = KEPT(z[i].net,0) | KEPT(z[i].net,4) | GONE(z[i].net,8,L) | GONE(z[i].net,11,L) | GONE(z[i].net,14,C) | SOME(z[i].net,17,3);
      i++
    :: else -> break od;
  if :: left > 0 -> left-- :: else fi;
  SETTLE }

#define IS(k,m)   (z[k].net & (m))
#define OFF(k,m)  z[k].net = z[k].net & ~(m)
#define RUN(k,m)  if :: ROOM -> skip :: else -> OFF(k,m) fi  /* a request that the server runs stays under way while there is room */

/* Code: acquire.lua, take.lua. */
#define FREE(k) (left==0 || z[k].has)
inline granted(k, a) { RUN(k,ACQUIRE(a)); give(k, L); unlist(k);
  if :: a < L -> z[k].net = z[k].net | GRANTED(a) :: else fi; SETTLE }
inline refused(k, a) { RUN(k,ACQUIRE(a));
  if :: a < C -> z[k].net = z[k].net | REFUSED(a) :: else fi; SETTLE }
/* Code: renew.lua. */
inline renewed(k, a) { RUN(k,RENEW(a));
  if :: z[k].has -> left = L; if :: a < L -> z[k].net = z[k].net | RENEWED(a) :: else fi
     :: else fi; SETTLE }
/* A stranger hands the lock over to z[k]. The owners before it in the wait queue do not listen, and leave the queue. Code: release.lua,
 * pass.lua, handover.lua/next_owner. */
inline handed(k) { x = z[k].place; i = 0;
  do :: i < P -> if :: z[i].place > x -> z[i].place = z[i].place - x :: else -> z[i].place = 0 fi; i++ :: else -> break od;
  give(k, C); if :: ROOM -> z[k].net = z[k].net | HANDED(0) :: else fi; SETTLE }

#define STRANGER (left > 0 && !z[0].has && !z[1].has && !z[P-2].has && !z[P-1].has) /* one has the lock */

/* The steps of a process: it asks again; it renews; it gives up, unlocks, sees the end of its trust or dies; the lock is handed over to
 * it. Code: LineCore.Settle, LineCore.Drop, Grant.Unlock, watchdog.Watchdog.pass, watchdog.Watchdog.send. */
#define STEPS(k) \
 :: d_step { z[k].st==WANTS && ROOM -> z[k].net = z[k].net | ACQUIRE(0); SETTLE } \
 :: d_step { z[k].st==HELD && z[k].trust > 0 && ROOM -> z[k].net = z[k].net | RENEW(0); SETTLE } \
 :: d_step { z[k].st!=NONE -> unlist(k); z[k].st = NONE; SETTLE } \
 :: d_step { STRANGER && z[k].place > 0 -> handed(k) }

/* The steps of a message: the server runs it, it arrives, it is lost. Code: LineCore.Settle, Ticket.Handed, watchdog.Watchdog.confirm. */
#define REQUESTS(k,a) \
 :: d_step { IS(k,ACQUIRE(a)) && FREE(k)  -> granted(k,a) } \
 :: d_step { IS(k,ACQUIRE(a)) && !FREE(k) -> refused(k,a) } \
 :: d_step { IS(k,ACQUIRE(a)) && !FREE(k) -> list(k); refused(k,a) } \
 :: d_step { IS(k,RENEW(a))               -> renewed(k,a) } \
 :: d_step { IS(k,ACQUIRE(a)) && !ROOM    -> OFF(k,ACQUIRE(a)); SETTLE } /* lost */ \
 :: d_step { IS(k,RENEW(a)) && !ROOM      -> OFF(k,RENEW(a)); SETTLE }
#define ANSWERS(k,a) \
 :: d_step { IS(k,GRANTED(a)) -> OFF(k,GRANTED(a)); hold(k, L - a); SETTLE } \
 :: d_step { IS(k,RENEWED(a)) -> OFF(k,RENEWED(a)); if :: L - a > z[k].trust -> z[k].trust = L - a :: else fi; SETTLE } \
 :: d_step { IS(k,REFUSED(a)) -> OFF(k,REFUSED(a)); z[k].base = a; SETTLE } \
 :: d_step { IS(k,HANDED(a)) && z[k].base + a < C -> OFF(k,HANDED(a)); hold(k, C - z[k].base - a); SETTLE } \
 :: d_step { IS(k,GRANTED(a)) && !ROOM -> OFF(k,GRANTED(a)); SETTLE } /* lost */ \
 :: d_step { IS(k,RENEWED(a)) && !ROOM -> OFF(k,RENEWED(a)); SETTLE } \
 :: d_step { IS(k,REFUSED(a)) && !ROOM -> OFF(k,REFUSED(a)); SETTLE } \
 :: d_step { IS(k,HANDED(a)) && !ROOM  -> OFF(k,HANDED(a)); SETTLE }

/* A fault: z[k] has the lock for t afterwards, or a stranger if there is no z[k]. Environment: the server. */
#define FAULT(k,t) \
 :: d_step { t <= L && faults > 0 -> faults--; i = 0; \
      do :: i < P -> if :: z[i].has && !(i==k && t >= left) -> z[i].st = NONE :: else fi; z[i].has = (i==k); z[i].place = 0; i++ :: else -> break od; \
      left = t; SETTLE }
#define FAULTS(k) FAULT(k,1) FAULT(k,2) FAULT(k,3)
/* After a fault, any owner may stand anywhere in the wait queue. */
#define JOINS(k) \
 :: d_step { faults < F && z[k].st!=NONE && z[k].place==0 -> list(k); SETTLE }

#define OWNER(k) STEPS(k) REQUESTS(k,0) REQUESTS(k,1) REQUESTS(k,2) REQUESTS(k,3) ANSWERS(k,0) ANSWERS(k,1) ANSWERS(k,2)

#define TRUSTS(k) (z[k].st==HELD && z[k].trust > 0)
#define AGREES(k) (!TRUSTS(k) || (z[k].has && left >= z[k].trust))

active proctype world() {
end: do
 :: d_step { assert(AGREES(0) && AGREES(1) && AGREES(P-2) && AGREES(P-1)); tick() }
 /* It asks with a new owner. Code: LineCore.Prepare. */
 :: d_step { z[P-1].st==NONE && ROOM -> z[P-1].st = WANTS; z[P-1].base = C; z[P-1].net = ACQUIRE(0); SETTLE }
 /* A stranger takes a free lock or keeps it; frees it; hands it over to a stranger. */
 :: d_step { left==0 || STRANGER -> left = L }
 :: d_step { STRANGER -> left = 0 }
 :: d_step { STRANGER -> left = C }
 OWNER(0) OWNER(1)
#if P > 2
 OWNER(2)
#endif
#if P > 3
 OWNER(3)
#endif
#if F > 0
 FAULT(P,0) FAULTS(P) FAULTS(0) FAULTS(1) JOINS(0) JOINS(1)
#if P > 2
 FAULTS(2) JOINS(2)
#endif
#if P > 3
 FAULTS(3) JOINS(3)
#endif
#endif
 od
}
