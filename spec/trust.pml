/*
 * The trust core of Mutex.tla again, for Spin, which visits many more states: for a lease that is
 * trusted, the server has the same owner for at least as long. The names are those of Mutex.tla.
 * Left out are withdrawals (a process sends one release of what it gives back, or none), tokens, and
 * what a process knows besides its trust.
 *
 * As in Mutex.tla, ages are kept and no dates, so time has no end. An owner's number is used again
 * when nothing refers to it any more, so the number of grants has no end.
 *
 * Each step of the loop is one action. The guard in front of a step says which process or message
 * it is for.
 */
#ifndef L
#define L 3        /* lease */
#endif
#ifndef C
#define C 2        /* the lease of a hand-over */
#endif
#ifndef F
#define F 1        /* faults */
#endif
#ifndef N
#define N 3        /* messages that can be under way: 2 or 3 */
#endif
#define P 3        /* processes; with -DTWO the third one does nothing */

#define NONE 7
#define REDISSON 6
#define OWNER(p,n) (2*(p)+(n))
#define PROC(o) ((o)>>1)

/* a message: kind, owner, age, and one more number; 0 is no message */
#define ACQUIRE 1  /* arg: 1 to join the wait queue, 0 not to */
#define GRANTED 2
#define REFUSED 3  /* arg: how long the request was under way */
#define RENEW   4
#define RENEWED 5
#define RELEASE 6
#define HANDED  7  /* age: the time since the hand-over */
#define MSG(k,o,age,arg) ((k) | (o)<<3 | (age)<<6 | (arg)<<8)
#define KIND(x) ((x)&7)
#define OF(x)   (((x)>>3)&7)
#define AGE(x)  (((x)>>6)&3)
#define ARG(x)  (((x)>>8)&3)

#define IDLE  0
#define WANTS 1
#define HELD  2

/* the server */
byte owner = NONE, left = 0, line[P] = NONE;
/* the processes: base is the slack of the sighting, if there is one; only then a process stands in the wait queue */
byte st[P], own[P], trust[P], base[P];
bit asking[P], sighted[P];
/* the network, in order, without gaps */
short m[N];
/* faults */
byte faults = F, forgotten = NONE;
#ifdef FAILOVER
byte cowner = NONE, cleft = 0, cline[P] = NONE;
bit copied = 0;
#define COPIED(o) (copied && (cowner==o || cline[0]==o || cline[1]==o || cline[2]==o))
#else
#define COPIED(o) 0
#endif
byte i, j, o; short x, y;   /* used within a step; 0 between steps */

#define ROOM (m[N-1]==0)
#define KNOWS(k,o) (m[k]!=0 && OF(m[k])==o)
#define LISTED(o) (line[0]==o || line[1]==o || line[2]==o)
#if N > 2
#define SENT(o) (KNOWS(0,o) || KNOWS(1,o) || KNOWS(2,o))
#define HAS(x) (x==m[0] || x==m[1] || x==m[2])
#else
#define SENT(o) (KNOWS(0,o) || KNOWS(1,o))
#define HAS(x) (x==m[0] || x==m[1])
#endif
#define NEW(o) (owner!=o && !SENT(o) && !LISTED(o) && !COPIED(o))

inline drop(k) { i = k; do :: i < N-1 -> m[i] = m[i+1]; i++ :: else -> break od; m[N-1] = 0; i = 0 }
inline order() {
  if :: m[0] < m[1] -> x = m[0]; m[0] = m[1]; m[1] = x :: else fi;
#if N > 2
  if :: m[1] < m[2] -> x = m[1]; m[1] = m[2]; m[2] = x :: else fi;
  if :: m[0] < m[1] -> x = m[0]; m[0] = m[1]; m[1] = x :: else fi;
  if :: m[1]!=0 && m[1]==m[2] -> m[2] = 0 :: else fi;
  if :: m[0]!=0 && m[0]==m[1] -> m[1] = m[2]; m[2] = 0 :: else fi;
#else
  if :: m[0]!=0 && m[0]==m[1] -> m[1] = 0 :: else fi;
#endif
  x = 0 }
/* put adds a message that is not there yet, and sorts the messages, since their order makes no difference */
inline put(msg) { y = msg;
  if :: HAS(y) -> skip
     :: else -> i = N-1; m[i] = y;
        do :: i > 0 && m[i-1] < m[i] -> x = m[i-1]; m[i-1] = m[i]; m[i] = x; i-- :: else -> break od
  fi; x = 0; y = 0; i = 0 }
/* answers for which no process waits make no difference */
#define UNHEARD(z) (\
  ((KIND(z)==GRANTED || KIND(z)==REFUSED) && !(own[PROC(OF(z))]==OF(z) && asking[PROC(OF(z))])) || \
  (KIND(z)==RENEWED && !(own[PROC(OF(z))]==OF(z) && st[PROC(OF(z))]==HELD)) || \
  (KIND(z)==HANDED && !(own[PROC(OF(z))]==OF(z) && st[PROC(OF(z))]==WANTS)))
/* processes are alike: the one that is further comes first, so that states that differ only in names are one state */
#define FAR(p) (st[p]*64 + trust[p]*16 + base[p]*4 + sighted[p]*2 + asking[p])
#define RENAMED(o,a) (PROC(o)==a -> (o)+2 : (PROC(o)==a+1 -> (o)-2 : (o)))
inline swap(a) {
  x = st[a]; st[a] = st[a+1]; st[a+1] = x; x = trust[a]; trust[a] = trust[a+1]; trust[a+1] = x;
  x = base[a]; base[a] = base[a+1]; base[a+1] = x; x = sighted[a]; sighted[a] = sighted[a+1]; sighted[a+1] = x;
  x = asking[a]; asking[a] = asking[a+1]; asking[a+1] = x;
  x = own[a]; own[a] = RENAMED(own[a+1],a); own[a+1] = RENAMED(x,a);
  owner = RENAMED(owner,a); forgotten = RENAMED(forgotten,a);
  i = 0; do :: i < P -> line[i] = RENAMED(line[i],a); i++ :: else -> break od;
#ifdef FAILOVER
  cowner = RENAMED(cowner,a);
  i = 0; do :: i < P -> cline[i] = RENAMED(cline[i],a); i++ :: else -> break od;
#endif
  i = 0; do :: i < N && m[i]!=0 -> o = OF(m[i]); o = RENAMED(o,a); m[i] = (m[i] & 967) | o<<3; i++ :: else -> break od;
  order(); i = 0; o = 0; x = 0 }
inline sort() {
  if :: FAR(0) < FAR(1) -> swap(0) :: else fi;
#ifndef TWO
  if :: FAR(1) < FAR(2) -> swap(1) :: else fi;
  if :: FAR(0) < FAR(1) -> swap(0) :: else fi;
#endif
  skip }
inline clean() { j = 0; do :: j < N && m[j]!=0 -> if :: UNHEARD(m[j]) -> drop(j) :: else -> j++ fi :: else -> break od;
  sort(); i = 0; j = 0; o = 0; x = 0; y = 0 }

inline rest(p) { st[p] = IDLE; own[p] = NONE; trust[p] = 0; base[p] = 0; asking[p] = 0; sighted[p] = 0; clean() }
inline begin(p, who) { own[p] = who; st[p] = WANTS; asking[p] = 1;
  if :: forgotten!=NONE && PROC(forgotten)==p -> forgotten = NONE :: else fi }
inline hold(p, t) { st[p] = HELD; if :: t > trust[p] -> trust[p] = t :: else fi; base[p] = 0; sighted[p] = 0 }
inline unlist(who) { i = 0; do :: i < P && line[i]!=who -> i++ :: else -> break od;
  do :: i < P-1 -> line[i] = line[i+1]; i++ :: i==P-1 -> line[i] = NONE; i++ :: else -> break od; i = 0 }
inline list(who) { if :: LISTED(who) -> skip
  :: else -> i = 0; do :: i < P && line[i]!=NONE -> i++ :: else -> break od; if :: i < P -> line[i] = who :: else fi; i = 0 fi }

/* One unit of time passes. Environment: the clocks. */
inline tick() {
  j = 0; do :: j < P ->
      if :: trust[j] > 0 -> trust[j]-- :: else fi;
      j++
    :: else -> break od;
  if :: left > 0 -> left--; if :: left==0 -> owner = NONE :: else fi :: else fi;
#ifdef FAILOVER
  if :: cleft > 0 -> cleft--; if :: cleft==0 -> cowner = NONE :: else fi :: else fi;
#endif
  j = 0; do :: j < N && m[j]!=0 ->
      if :: KIND(m[j])!=REFUSED && KIND(m[j])!=RELEASE && AGE(m[j]) < L -> m[j] = m[j] + 64 :: else fi; j++
    :: else -> break od;
  order();
  clean() }

/* Code: acquire.lua, take.lua. */
inline runAcquire(z) { o = OF(z);
  if :: owner==NONE || owner==o ->
        owner = o; if :: left < L -> left = L :: else fi;
        unlist(o);
        put(MSG(GRANTED,o,AGE(z),0))
     :: else ->
        if :: ARG(z) > 0 -> list(o) :: else fi;
        x = AGE(z); if :: x > C -> x = C :: else fi;
        put(MSG(REFUSED,o,0,x)) fi; clean() }
/* Code: renew.lua. */
inline runRenew(z) { o = OF(z);
  if :: owner==o -> if :: left < L -> left = L :: else fi; put(MSG(RENEWED,o,AGE(z),0)) :: else fi; clean() }
/* Code: release.lua, handover.lua/next_owner. */
inline runRelease(z) { o = OF(z);
  if :: owner==o && line[0]!=NONE -> owner = line[0]; left = C; unlist(owner); put(MSG(HANDED,owner,0,0))
     :: owner==o && line[0]==NONE -> owner = NONE; left = 0
     :: else -> unlist(o) fi; clean() }

/* Code: resource.handed. */
inline handed(z) { o = PROC(OF(z));
  if :: sighted[o] && base[o] + AGE(z) < C -> hold(o, C - base[o] - AGE(z)) :: else fi; clean() }

/* The steps of a process: it asks with a new owner, with either of its numbers; asks again; takes an answer as unknown; gives up or
 * unlocks; sees the end of its trust; renews. Code: resource.prepare, resource.settle, resource.abandon, grant.unlock,
 * watchdog.Watchdog.pass, watchdog.Watchdog.send. */
#define STEPS(p) \
 :: d_step { st[p]==IDLE && ROOM && NEW(OWNER(p,0)) -> begin(p, OWNER(p,0)); put(MSG(ACQUIRE,own[p],0,0)); clean() } \
 :: d_step { st[p]==IDLE && ROOM && !NEW(OWNER(p,0)) && NEW(OWNER(p,1)) -> begin(p, OWNER(p,1)); put(MSG(ACQUIRE,own[p],0,0)); clean() } \
 :: d_step { st[p]==WANTS && !asking[p] && ROOM -> asking[p] = 1; put(MSG(ACQUIRE,own[p],0,sighted[p])); clean() } \
 :: d_step { asking[p] -> asking[p] = 0; clean() }                                          /* unknown */ \
 :: d_step { st[p]!=IDLE && !asking[p] && ROOM -> put(MSG(RELEASE,own[p],0,0)); rest(p) }   /* it gives up, or unlocks */ \
 :: d_step { st[p]!=IDLE && !asking[p] -> rest(p) }                                         /* the same, and the release is lost */ \
 :: d_step { st[p]==HELD && trust[p]==0 -> rest(p) }                                        /* the trust is over */ \
 :: d_step { st[p]==HELD && trust[p] > 0 && ROOM -> put(MSG(RENEW,own[p],0,0)); clean() }

/* The steps of a message: the server runs it, it arrives, it is lost, or the server runs it twice. Code: resource.settle,
 * resource.handed, watchdog.Lease.confirm. */
#define ARRIVES(k) \
 :: d_step { KIND(m[k])==ACQUIRE -> y = m[k]; drop(k); runAcquire(y) } \
 :: d_step { KIND(m[k])==RENEW   -> y = m[k]; drop(k); runRenew(y) } \
 :: d_step { KIND(m[k])==RELEASE -> y = m[k]; drop(k); runRelease(y) } \
 :: d_step { KIND(m[k])==RELEASE && owner==OF(m[k]) && line[0]!=NONE -> unlist(line[0]); y = m[k]; drop(k); runRelease(y) } /* the head does not listen */ \
 :: d_step { KIND(m[k])==GRANTED -> j = PROC(OF(m[k])); x = L - AGE(m[k]); asking[j] = 0; drop(k); \
      if :: x > 0 && st[j]!=HELD -> hold(j, x) :: else fi; x = 0; clean() } \
 :: d_step { KIND(m[k])==REFUSED -> j = PROC(OF(m[k])); asking[j] = 0; \
      if :: st[j]!=HELD -> sighted[j] = 1; base[j] = ARG(m[k]) :: else fi; drop(k); clean() } \
 :: d_step { KIND(m[k])==HANDED  -> y = m[k]; drop(k); handed(y) } \
 :: d_step { KIND(m[k])==RENEWED -> j = PROC(OF(m[k])); x = L - AGE(m[k]); drop(k); if :: x > trust[j] -> trust[j] = x :: else fi; clean() } \
 :: d_step { m[k]!=0 -> drop(k); clean() } /* lost */ \
 :: d_step { faults > 0 && KIND(m[k])==ACQUIRE && ROOM -> faults--; runAcquire(m[k]) } /* run, and will be run again */ \
 :: d_step { faults > 0 && KIND(m[k])==RENEW   && ROOM -> faults--; runRenew(m[k]) } \
 :: d_step { faults > 0 && KIND(m[k])==RELEASE && ROOM -> faults--; runRelease(m[k]) }

#define AGREES(p) (!(st[p]==HELD && trust[p] > 0) || own[p]==forgotten || (owner==own[p] && left >= trust[p]))

active proctype world() {
  own[0] = NONE; own[1] = NONE; own[2] = NONE;
end: do
 :: d_step { assert(AGREES(0) && AGREES(1) && AGREES(2)); tick() }
 STEPS(0) STEPS(1)
#ifndef TWO
 STEPS(2)
#endif
 ARRIVES(0) ARRIVES(1)
#if N > 2
 ARRIVES(2)
#endif
#ifdef JAVA
 :: d_step { owner==NONE -> owner = REDISSON; left = L }
 :: d_step { owner==REDISSON -> owner = NONE; left = 0 }
#endif
#ifdef FLUSH
 :: d_step { faults > 0 -> faults--; forgotten = owner; owner = NONE; left = 0; line[0] = NONE; line[1] = NONE; line[2] = NONE }
#endif
#ifdef FAILOVER
 :: d_step { faults > 0 && !copied -> copied = 1; cowner = owner; cleft = left; cline[0] = line[0]; cline[1] = line[1]; cline[2] = line[2] }
 :: d_step { faults > 0 && copied -> faults--; forgotten = (owner==cowner && cleft >= left -> NONE : owner);
      owner = cowner; left = cleft; line[0] = cline[0]; line[1] = cline[1]; line[2] = cline[2];
      copied = 0; cowner = NONE; cleft = 0; cline[0] = NONE; cline[1] = NONE; cline[2] = NONE }
#endif
 od
}
/* in every state, not only before time passes */
#ifdef EVERY
never { do :: assert(AGREES(0) && AGREES(1) && AGREES(2)) od }
#endif
