/*
 * The trust core of Mutex.tla again, for Spin, which visits many more states: for a lease that is
 * trusted, the server has the same owner for at least as long. The names are those of Mutex.tla.
 * Left out are withdrawals (a process sends one release of what it gives back, or none), tokens, and
 * what a process knows besides its trust.
 *
 * As in Mutex.tla, ages are kept and no dates, so time has no end. An owner's number is used again
 * when nothing refers to it any more, so the number of grants has no end.
 *
 * A state is a set of owners. All that concerns an owner is in its record: what its process knows,
 * what the server knows, and its messages. A process without an owner is like any other. So settle
 * can sort the records: states that differ only in the names of owners or processes are one state.
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
#ifdef TWO
#define P 2        /* processes */
#else
#define P 3
#endif
#define K 6        /* owners to which something refers */

#define IDLE  0    /* no process has this owner (any more) */
#define WANTS 1
#define HELD  2

/* The messages of an owner are a set of bits. a is the age of a request, or of what an answer is about. */
#define ACQUIRE(g,a) (1<<(4*(g)+(a)))  /* g: 1 to join the wait queue, 0 not to */
#define RENEW(a)   (1<<(8+(a)))
#define RELEASE    (1<<12)
#define GRANTED(a) (1<<(13+(a)))
#define RENEWED(a) (1<<(16+(a)))
#define HANDED(a)  (1<<(19+(a)))       /* a: the time since the hand-over */
#define REFUSED(u) (1<<(22+(u)))       /* u: how long the request was under way */

typedef Owner {
  byte st;              /* of the process */
  byte trust, base;     /* base is the slack of the sighting, if there is one; only then a process stands in the wait queue */
  byte place;           /* in the wait queue, from 1 on */
#ifdef FAILOVER
  byte placed;
  bit had;
#endif
  bit asking, sighted;
  bit has;              /* the server has it as the owner */
  bit forgotten;        /* the server forgot that */
  int net               /* messages */
}
Owner z[K];
byte left = 0;          /* of the lease that the server has granted, to an owner or to Redisson */
byte live = 0, under = 0; /* processes with an owner, messages under way */
byte faults = F;
#ifdef JAVA
bit java = 0;
#endif
#ifdef FAILOVER
bit copied = 0; byte cleft = 0;
#ifdef JAVA
bit cjava = 0;
#endif
#endif
byte i, h, x;           /* used within a step; 0 between steps */

#define ROOM (under < N)
#define NEW(o) (z[o].net==0 && z[o].st==IDLE && !z[o].has && z[o].place==0 && !COPIED(o))
#ifdef FAILOVER
#define COPIED(o) (z[o].had || z[o].placed>0)
#else
#define COPIED(o) 0
#endif

/* settle brings a state into its canonical form after each step:
 * - Answers for which no process waits make no difference; nor does it, for how long requests are under way of an owner that nobody has.
 * - Once no answer can come, a process takes it as unknown. It could at any time, and no other step needs that it waits.
 * - The records are sorted. */
c_code {
#define GROUP(from,n) (((1<<(n))-1)<<(from))
  static int pushed(int net, int from) { /* of an owner that nobody has only the number of requests of a kind matters */
    int n = __builtin_popcount(net & GROUP(from,4));
    return (net & ~GROUP(from,4)) | GROUP(from,n);
  }
  static void settle(void) {
    int k, j;
    now.live = 0; now.under = 0; now.i = 0; now.h = 0; now.x = 0;
    for (k = 0; k < K; k++) {
      struct Owner *o = &now.z[k], y;
      if (o->st == IDLE) {
        o->trust = 0; o->base = 0; o->asking = 0; o->sighted = 0; o->forgotten = 0;
        o->net &= GROUP(0,13); /* requests */
        o->net = pushed(pushed(pushed(o->net, 0), 4), 8);
      } else {
        now.live++;
        if (o->st == HELD) { o->asking = 0; o->net &= ~GROUP(19,3); } /* no HANDED */
        else o->net &= ~GROUP(16,3); /* no RENEWED */
        if (!o->asking) o->net &= ~(GROUP(13,3) | GROUP(22,4)); /* no GRANTED, no REFUSED */
        else if (!(o->net & (GROUP(0,8) | GROUP(13,3) | GROUP(22,4)))) o->asking = 0; /* no answer comes */
      }
      now.under += __builtin_popcount(o->net);
      y = *o;
      for (j = k; j > 0 && memcmp(&y, &now.z[j-1], sizeof y) > 0; j--) now.z[j] = now.z[j-1];
      now.z[j] = y;
    }
  }
}
#define SETTLE c_code { settle(); }

inline rest(k) { z[k].st = IDLE }
inline hold(k, t) { z[k].st = HELD; if :: t > z[k].trust -> z[k].trust = t :: else fi; z[k].base = 0; z[k].sighted = 0 }
inline unlist(k) { x = z[k].place; z[k].place = 0; i = 0;
  do :: i < K -> if :: x > 0 && z[i].place > x -> z[i].place-- :: else fi; i++ :: else -> break od }
inline list(k) { x = 1; i = 0;
  do :: i < K -> if :: z[i].place > 0 -> x++ :: else fi; i++ :: else -> break od;
  if :: z[k].place==0 && x <= 3 -> z[k].place = x :: else fi }
/* head sets h to the first in the wait queue, or to K. */
inline head() { h = 0; do :: h < K && z[h].place!=1 -> h++ :: else -> break od }

/* The messages of a kind when time has passed: requests that are as old as a lease stay so, and answers that nobody trusts any more are no
 * messages. from and n are the first bit and the number of bits. */
#define GROWN(m,from,n)  ((m) & (((1<<(n))-1)<<(from)))
#define KEPT(m,from)     (((GROWN(m,from,L)<<1) | ((m) & (1<<((from)+L)))))
#define GONE(m,from,n)   (GROWN(m,from,(n)-1)<<1)

/* One unit of time passes. Environment: the clocks. */
inline tick() {
  i = 0; do :: i < K ->
      if :: z[i].trust > 0 -> z[i].trust-- :: else fi;
      if :: left==1 -> z[i].has = 0 :: else fi;
#ifdef FAILOVER
      if :: cleft==1 -> z[i].had = 0 :: else fi;
#endif
      if :: z[i].st!=IDLE -> z[i].net = KEPT(z[i].net,0) | KEPT(z[i].net,4) | KEPT(z[i].net,8) | (z[i].net & (RELEASE | 15<<22)) |
           GONE(z[i].net,13,L) | GONE(z[i].net,16,L) | GONE(z[i].net,19,C) :: else fi;
      i++
    :: else -> break od;
#ifdef JAVA
  if :: left==1 -> java = 0 :: else fi;
#endif
  if :: left > 0 -> left-- :: else fi;
#ifdef FAILOVER
#ifdef JAVA
  if :: cleft==1 -> cjava = 0 :: else fi;
#endif
  if :: cleft > 0 -> cleft-- :: else fi;
#endif
  SETTLE }

/* Code: acquire.lua, take.lua. */
inline runAcquire(k, g, a) {
  if :: left==0 || z[k].has ->
        z[k].has = 1; if :: left < L -> left = L :: else fi;
        unlist(k);
        if :: a < L -> z[k].net = z[k].net | GRANTED(a) :: else fi
     :: else ->
        if :: g > 0 -> list(k) :: else fi;
        z[k].net = z[k].net | REFUSED((a > C -> C : a)) fi; SETTLE }
/* Code: renew.lua. */
inline runRenew(k, a) {
  if :: z[k].has -> if :: left < L -> left = L :: else fi;
        if :: a < L -> z[k].net = z[k].net | RENEWED(a) :: else fi
     :: else fi; SETTLE }
/* Code: release.lua, handover.lua/next_owner. */
inline runRelease(k) { head();
  if :: z[k].has && h < K -> z[k].has = 0; z[h].has = 1; left = C; unlist(h); z[h].net = z[h].net | HANDED(0)
     :: z[k].has && h==K -> z[k].has = 0; left = 0
     :: else -> unlist(k) fi; SETTLE }

/* Code: resource.handed. */
inline handed(k, a) {
  if :: z[k].sighted && z[k].base + a < C -> hold(k, C - z[k].base - a) :: else fi; SETTLE }

/* The steps of a process: it asks again; takes an answer as unknown; gives up or unlocks; sees the end of its trust; renews. Code:
 * resource.settle, resource.abandon, grant.unlock, watchdog.Watchdog.pass, watchdog.Watchdog.send. */
#define STEPS(k) \
 :: d_step { z[k].st==WANTS && !z[k].asking && ROOM -> z[k].asking = 1; \
      if :: z[k].sighted -> z[k].net = z[k].net | ACQUIRE(1,0) :: else -> z[k].net = z[k].net | ACQUIRE(0,0) fi; SETTLE } \
 :: d_step { z[k].asking -> z[k].asking = 0; SETTLE }                                            /* unknown */ \
 :: d_step { z[k].st!=IDLE && !z[k].asking && ROOM -> z[k].net = z[k].net | RELEASE; rest(k); SETTLE } /* it gives up, or unlocks */ \
 :: d_step { z[k].st!=IDLE && !z[k].asking -> rest(k); SETTLE }                                  /* the same, and the release is lost */ \
 :: d_step { z[k].st==HELD && z[k].trust==0 -> rest(k); SETTLE }                                 /* the trust is over */ \
 :: d_step { z[k].st==HELD && z[k].trust > 0 && ROOM -> z[k].net = z[k].net | RENEW(0); SETTLE }

/* The steps of a message: the server runs it, it arrives, it is lost, or the server runs it twice. Code: resource.settle,
 * resource.handed, watchdog.Lease.confirm. */
#define IS(k,m)   (z[k].net & (m))
#define OFF(k,m)  z[k].net = z[k].net & ~(m)
#define AGED(k,a) \
 :: d_step { IS(k,ACQUIRE(0,a)) -> OFF(k,ACQUIRE(0,a)); runAcquire(k,0,a) } \
 :: d_step { IS(k,ACQUIRE(1,a)) -> OFF(k,ACQUIRE(1,a)); runAcquire(k,1,a) } \
 :: d_step { IS(k,RENEW(a))     -> OFF(k,RENEW(a)); runRenew(k,a) } \
 :: d_step { IS(k,ACQUIRE(0,a)) -> OFF(k,ACQUIRE(0,a)); SETTLE } /* lost */ \
 :: d_step { IS(k,ACQUIRE(1,a)) -> OFF(k,ACQUIRE(1,a)); SETTLE } \
 :: d_step { IS(k,RENEW(a))     -> OFF(k,RENEW(a)); SETTLE } \
 :: d_step { faults > 0 && ROOM && IS(k,ACQUIRE(0,a)) -> faults--; runAcquire(k,0,a) } /* run, and will be run again */ \
 :: d_step { faults > 0 && ROOM && IS(k,ACQUIRE(1,a)) -> faults--; runAcquire(k,1,a) } \
 :: d_step { faults > 0 && ROOM && IS(k,RENEW(a))     -> faults--; runRenew(k,a) }
#define REQUESTS(k) AGED(k,0) AGED(k,1) AGED(k,2) AGED(k,3) \
 :: d_step { IS(k,RELEASE) -> OFF(k,RELEASE); runRelease(k) } \
 :: d_step { IS(k,RELEASE) -> OFF(k,RELEASE); SETTLE } \
 :: d_step { faults > 0 && ROOM && IS(k,RELEASE) -> faults--; runRelease(k) } \
 :: d_step { IS(k,RELEASE) && z[k].has -> OFF(k,RELEASE); head(); if :: h < K -> unlist(h) :: else fi; runRelease(k) } /* the head does not listen */
#define NEWS(k,a) \
 :: d_step { IS(k,GRANTED(a)) -> OFF(k,GRANTED(a)); z[k].asking = 0; hold(k, L - a); SETTLE } \
 :: d_step { IS(k,RENEWED(a)) -> OFF(k,RENEWED(a)); if :: L - a > z[k].trust -> z[k].trust = L - a :: else fi; SETTLE } \
 :: d_step { IS(k,REFUSED(a)) -> OFF(k,REFUSED(a)); z[k].asking = 0; z[k].sighted = 1; z[k].base = a; SETTLE } \
 :: d_step { IS(k,HANDED(a))  -> OFF(k,HANDED(a)); handed(k,a) } \
 :: d_step { IS(k,GRANTED(a)) -> OFF(k,GRANTED(a)); SETTLE } /* lost */ \
 :: d_step { IS(k,RENEWED(a)) -> OFF(k,RENEWED(a)); SETTLE } \
 :: d_step { IS(k,REFUSED(a)) -> OFF(k,REFUSED(a)); SETTLE } \
 :: d_step { IS(k,HANDED(a))  -> OFF(k,HANDED(a)); SETTLE }
#define ANSWERS(k) NEWS(k,0) NEWS(k,1) NEWS(k,2)

#define AGREES(k) (!(z[k].st==HELD && z[k].trust > 0) || z[k].forgotten || (z[k].has && left >= z[k].trust))

active proctype world() {
end: do
 :: d_step { assert(AGREES(0) && AGREES(1) && AGREES(2)); tick() }
 /* It asks with a new owner. Code: resource.prepare. */
 :: d_step { live < P && ROOM && NEW(K-1) -> z[K-1].st = WANTS; z[K-1].asking = 1; z[K-1].net = ACQUIRE(0,0); SETTLE }
 STEPS(0) STEPS(1) ANSWERS(0) ANSWERS(1)
#ifndef TWO
 STEPS(2) ANSWERS(2)
#endif
 REQUESTS(0) REQUESTS(1) REQUESTS(2) REQUESTS(3) REQUESTS(4) REQUESTS(5)
#ifdef JAVA
 :: d_step { left==0 -> java = 1; left = L }
 :: d_step { java -> java = 0; left = 0 }
#endif
#ifdef FLUSH
 :: d_step { faults > 0 -> faults--; left = 0; i = 0;
#ifdef JAVA
      java = 0;
#endif
      do :: i < K -> if :: z[i].has -> z[i].forgotten = 1 :: else fi; z[i].has = 0; z[i].place = 0; i++ :: else -> break od; SETTLE }
#endif
#ifdef FAILOVER
 :: d_step { faults > 0 && !copied -> copied = 1; cleft = left; i = 0;
#ifdef JAVA
      cjava = java;
#endif
      do :: i < K -> z[i].had = z[i].has; z[i].placed = z[i].place; i++ :: else -> break od; SETTLE }
 :: d_step { faults > 0 && copied -> faults--; copied = 0; i = 0;
      do :: i < K -> if :: z[i].has && !(z[i].had && cleft >= left) -> z[i].forgotten = 1 :: else fi;
           z[i].has = z[i].had; z[i].place = z[i].placed; z[i].had = 0; z[i].placed = 0; i++ :: else -> break od;
#ifdef JAVA
      java = cjava; cjava = 0;
#endif
      left = cleft; cleft = 0; SETTLE }
#endif
 od
}
