package peer;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RObject;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;
import org.redisson.config.ShardedSubscriptionMode;

/**
 * A Java process that does with Redisson what it is told, line by line.
 *
 * <p>A line on the standard input is
 *
 * <pre>id client thread command arguments...</pre>
 *
 * and is answered, when it is done, by one on the standard output:
 *
 * <pre>id ok|error began ended text</pre>
 *
 * with the times in microseconds since 1970. A thread of a client runs one command after the other, since
 * Redisson's locks belong to threads; different threads run side by side. Threads are made when they are first
 * named. All durations are in milliseconds; where Redisson has none, 0 stands for it.
 */
public final class Peer {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final Map<String, RedissonClient> CLIENTS = new ConcurrentHashMap<>();
    private static final Map<String, ExecutorService> WORKERS = new ConcurrentHashMap<>();
    private static final Map<String, Thread> THREADS = new ConcurrentHashMap<>();

    private Peer() {}

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            WORKERS.computeIfAbsent(words[1] + "/" + words[2], name -> Executors.newSingleThreadExecutor(work -> {
                Thread thread = new Thread(work, name);
                thread.setDaemon(true);
                THREADS.put(name, thread);
                return thread;
            })).execute(() -> answer(words));
        }
        System.exit(0); // the parent is gone
    }

    private static void answer(String[] words) {
        long began = now();
        String outcome;
        String text;
        try {
            outcome = "ok";
            text = run(words);
        } catch (Throwable t) {
            outcome = "error";
            text = t.getClass().getSimpleName() + ": " + t.getMessage();
            for (Throwable cause = t.getCause(); cause != null; cause = cause.getCause()) {
                text += ", for " + cause.getClass().getSimpleName() + ": " + cause.getMessage();
            }
        }
        OUT.println(words[0] + " " + outcome + " " + began + " " + now() + " " + text.replace('\n', ' '));
    }

    private static long now() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000 + now.getNano() / 1000;
    }

    private static String run(String[] w) throws Exception {
        String client = w[1];
        switch (w[3]) {
            case "open":
                return open(client, w);
            case "close":
                CLIENTS.remove(client).shutdown();
                return "";
            case "parked": // thread
                return "" + parked(THREADS.get(client + "/" + w[4]));
            case "asking": // thread
                return "" + asking(THREADS.get(client + "/" + w[4]));
            case "interrupt": // thread
                THREADS.get(client + "/" + w[4]).interrupt();
                return "";
            case "has": // class method
                return "" + Arrays.stream(Class.forName(w[4]).getMethods()).anyMatch(m -> m.getName().equals(w[5]));
            case "sleep":
                Thread.sleep(Long.parseLong(w[4]));
                return "";
            case "die":
                Runtime.getRuntime().halt(137);
                return "";
            default:
                return use(CLIENTS.get(client), w);
        }
    }

    /** Connects: mode addresses watchdog settings..., with addresses and settings as in the README. */
    private static String open(String client, String[] w) {
        String[] addresses = w[5].split(",");
        Map<String, String> settings = new HashMap<>();
        for (int i = 7; i < w.length; i++) {
            settings.put(w[i].substring(0, w[i].indexOf('=')), w[i].substring(w[i].indexOf('=') + 1));
        }
        Config config = new Config()
                .setCodec(StringCodec.INSTANCE)
                .setLockWatchdogTimeout(Long.parseLong(w[6]))
                .setThreads(4)
                .setNettyThreads(2);
        if (settings.containsKey("fairWait")) {
            config.setFairLockWaitTimeout(Long.parseLong(settings.get("fairWait")));
        }
        if (settings.containsKey("user")) {
            config.setUsername(settings.get("user")).setPassword(settings.get("password"));
        }
        switch (w[4]) {
            case "single":
                config.useSingleServer()
                        .setAddress(addresses[0])
                        .setConnectionMinimumIdleSize(1)
                        .setConnectionPoolSize(16)
                        .setSubscriptionConnectionMinimumIdleSize(1);
                break;
            case "sentinel":
                config.useSentinelServers()
                        .setMasterName(settings.get("master"))
                        .addSentinelAddress(addresses)
                        .setMasterConnectionMinimumIdleSize(1)
                        .setSlaveConnectionMinimumIdleSize(1)
                        .setSubscriptionConnectionMinimumIdleSize(1);
                break;
            case "cluster":
                config.useClusterServers()
                        .addNodeAddress(addresses)
                        .setMasterConnectionMinimumIdleSize(1)
                        .setSlaveConnectionMinimumIdleSize(1)
                        .setSubscriptionConnectionMinimumIdleSize(1);
                if (settings.containsKey("sharded")) {
                    Sharded.set(config, settings.get("sharded"));
                }
                break;
            default:
                throw new IllegalArgumentException("no such mode: " + w[4]);
        }
        RedissonClient redisson = Redisson.create(config);
        CLIENTS.put(client, redisson);
        return redisson.getId();
    }

    /** What Redisson has since 3.29, apart so that older ones run, too. */
    private static final class Sharded {
        static void set(Config config, String mode) {
            config.useClusterServers().setShardedSubscriptionMode(ShardedSubscriptionMode.valueOf(mode));
        }
    }

    /** Tells whether a thread waits to be told that something is free. */
    private static boolean parked(Thread thread) {
        if (thread == null || thread.getState() != Thread.State.WAITING && thread.getState() != Thread.State.TIMED_WAITING) {
            return false;
        }
        for (StackTraceElement frame : thread.getStackTrace()) {
            if (frame.getMethodName().equals("<init>")) {
                continue; // Redisson makes what the thread will wait for before it asks once more
            }
            if (frame.getClassName().equals("java.util.concurrent.Semaphore")
                    || frame.getClassName().contains("ReclosableLatch")
                    || frame.getClassName().equals("java.lang.Thread") && frame.getMethodName().equals("sleep")) {
                return true;
            }
        }
        return false;
    }

    /** Tells whether a thread waits for the answer of the server. */
    private static boolean asking(Thread thread) {
        return thread != null
                && thread.getState() == Thread.State.WAITING
                && Arrays.stream(thread.getStackTrace()).anyMatch(f -> f.getClassName().endsWith("CompletableFuture"));
    }

    private static String use(RedissonClient c, String[] w) throws Exception {
        String name = w[4]; // lock commands have a kind, then the name
        switch (w[3]) {
            case "lock": { // kind name lease
                RLock lock = lock(c, w[4], w[5]);
                long lease = Long.parseLong(w[6]);
                if (lease > 0) {
                    lock.lock(lease, TimeUnit.MILLISECONDS);
                } else {
                    lock.lock();
                }
                return "";
            }
            case "tryLock": { // kind name wait lease
                long wait = Long.parseLong(w[6]);
                long lease = Long.parseLong(w[7]);
                RLock lock = lock(c, w[4], w[5]);
                return "" + (lease > 0
                        ? lock.tryLock(wait, lease, TimeUnit.MILLISECONDS)
                        : lock.tryLock(wait, TimeUnit.MILLISECONDS));
            }
            case "unlock": // kind name
                lock(c, w[4], w[5]).unlock();
                return "";
            case "forceUnlock":
                return "" + lock(c, w[4], w[5]).forceUnlock();
            case "delete":
                return "" + ((RObject) lock(c, w[4], w[5])).delete();
            case "lockInterruptibly": // kind name
                lock(c, w[4], w[5]).lockInterruptibly();
                return "";
            case "isLocked":
                return "" + lock(c, w[4], w[5]).isLocked();
            case "isHeld":
                return "" + lock(c, w[4], w[5]).isHeldByCurrentThread();
            case "holdCount":
                return "" + lock(c, w[4], w[5]).getHoldCount();
            case "remain":
                return "" + lock(c, w[4], w[5]).remainTimeToLive();

            case "mapLockName": // map key
                return c.getMap(name, StringCodec.INSTANCE).getLock(w[5]).getName();
            case "mapTryLock":
                return "" + c.getMap(name, StringCodec.INSTANCE).getLock(w[5]).tryLock();
            case "mapUnlock":
                c.getMap(name, StringCodec.INSTANCE).getLock(w[5]).unlock();
                return "";

            case "fencedLock": // name
                return "" + c.getFencedLock(name).lockAndGetToken();
            case "fencedTry": // name wait, "null" if it is not granted
                return "" + c.getFencedLock(name).tryLockAndGetToken(Long.parseLong(w[5]), TimeUnit.MILLISECONDS);
            case "fencedToken":
                return "" + c.getFencedLock(name).getToken();

            case "semaphoreSet": // name permits
                return "" + c.getSemaphore(name).trySetPermits(Integer.parseInt(w[5]));
            case "semaphoreAcquire":
                c.getSemaphore(name).acquire(Integer.parseInt(w[5]));
                return "";
            case "semaphoreTry":
                return "" + c.getSemaphore(name).tryAcquire(Integer.parseInt(w[5]));
            case "semaphoreRelease":
                c.getSemaphore(name).release(Integer.parseInt(w[5]));
                return "";
            case "semaphoreAdd":
                c.getSemaphore(name).addPermits(Integer.parseInt(w[5]));
                return "";
            case "semaphoreDrain":
                return "" + c.getSemaphore(name).drainPermits();
            case "semaphoreAvailable":
                return "" + c.getSemaphore(name).availablePermits();

            case "permitSet": // name permits
                return "" + permits(c, name).trySetPermits(Integer.parseInt(w[5]));
            case "permitAcquire": { // name lease
                long lease = Long.parseLong(w[5]);
                return lease > 0 ? permits(c, name).acquire(lease, TimeUnit.MILLISECONDS) : permits(c, name).acquire();
            }
            case "permitTry":
                return "" + permits(c, name).tryAcquire();
            case "permitAcquireMany": // name permits
                return String.join(",", permits(c, name).acquire(Integer.parseInt(w[5])));
            case "permitReleaseMany": // name ids
                permits(c, name).release(Arrays.asList(w[5].split(",")));
                return "";
            case "permitAdd": // name permits
                permits(c, name).addPermits(Integer.parseInt(w[5]));
                return "";
            case "permitSetTotal": // name permits
                permits(c, name).setPermits(Integer.parseInt(w[5]));
                return "";
            case "permitRelease": // name id
                permits(c, name).release(w[5]);
                return "";
            case "permitUpdate": // name id lease
                return "" + permits(c, name).updateLeaseTime(w[5], Long.parseLong(w[6]), TimeUnit.MILLISECONDS);
            case "permitLease": // name id
                return "" + permits(c, name).getLeaseTime(w[5]);
            case "permitAvailable":
                return "" + permits(c, name).availablePermits();
            case "permitAcquired":
                return "" + permits(c, name).acquiredPermits();
            case "permitTotal":
                return "" + permits(c, name).getPermits();

            case "latchSet": // name count
                return "" + c.getCountDownLatch(name).trySetCount(Long.parseLong(w[5]));
            case "latchDown":
                c.getCountDownLatch(name).countDown();
                return "";
            case "latchCount":
                return "" + c.getCountDownLatch(name).getCount();
            case "latchAwaitFor": // name wait
                return "" + c.getCountDownLatch(name).await(Long.parseLong(w[5]), TimeUnit.MILLISECONDS);
            case "latchAwait":
                c.getCountDownLatch(name).await();
                return "";
            case "latchDelete":
                return "" + c.getCountDownLatch(name).delete();

            case "contend": // kind name counter milliseconds; "-" is no counter
                return contend(c, turns(c, w[4], w[5]), w[6], Long.parseLong(w[7]));
            default:
                throw new IllegalArgumentException("no such command: " + w[3]);
        }
    }

    private static RLock lock(RedissonClient c, String kind, String name) {
        switch (kind) {
            case "lock":
                return c.getLock(name);
            case "fenced":
                return c.getFencedLock(name);
            case "fair":
                return c.getFairLock(name);
            case "spin":
                return c.getSpinLock(name);
            case "multi": // of three kinds
                return c.getMultiLock(
                        c.getLock(name + ":a"), c.getReadWriteLock(name + ":b").writeLock(), c.getFairLock(name + ":c"));
            case "reversed": // the same, listed in another order
                return c.getMultiLock(
                        c.getFairLock(name + ":c"), c.getReadWriteLock(name + ":b").writeLock(), c.getLock(name + ":a"));
            case "red": // on the servers of all clients red...
                return new RedissonRedLock(new TreeMap<>(CLIENTS)
                        .entrySet().stream()
                                .filter(client -> client.getKey().startsWith("red"))
                                .map(client -> client.getValue().getLock(name))
                                .toArray(RLock[]::new));
            case "read":
                return c.getReadWriteLock(name).readLock();
            case "write":
                return c.getReadWriteLock(name).writeLock();
            default:
                throw new IllegalArgumentException("no such kind of lock: " + kind);
        }
    }

    /** Takes what many callers want, and returns what gives it back. */
    private interface Turns {
        AutoCloseable take() throws Exception;
    }

    /** Turns at a lock, or at the only permit of a semaphore. */
    private static Turns turns(RedissonClient c, String kind, String name) {
        switch (kind) {
            case "semaphore":
                RSemaphore semaphore = c.getSemaphore(name);
                return () -> {
                    semaphore.acquire();
                    return semaphore::release;
                };
            case "permit":
                RPermitExpirableSemaphore permits = permits(c, name);
                return () -> {
                    String id = permits.acquire();
                    return () -> permits.release(id);
                };
            default:
                RLock lock = lock(c, kind, name);
                return () -> {
                    lock.lock();
                    return lock::unlock;
                };
        }
    }

    private static RPermitExpirableSemaphore permits(RedissonClient c, String name) {
        return c.getPermitExpirableSemaphore(name);
    }

    /** Takes turns, and counts in a way that loses counts unless they exclude, if there is a counter; answers "count longest". */
    private static String contend(RedissonClient c, Turns turns, String counter, long milliseconds) throws Exception {
        // Redisson reads a bucket from a replica, which may not have the last write yet: INCRBY 0 asks the master.
        RAtomicLong master = c.getAtomicLong(counter);
        RBucket<String> bucket = c.getBucket(counter, StringCodec.INSTANCE);
        long end = System.nanoTime() + Duration.ofMillis(milliseconds).toNanos();
        long count = 0;
        long longest = 0;
        while (System.nanoTime() < end) {
            long asked = System.nanoTime();
            try (AutoCloseable turn = turns.take()) {
                longest = Math.max(longest, System.nanoTime() - asked);
                if (!counter.equals("-")) {
                    bucket.set(Long.toString(master.addAndGet(0) + 1));
                }
                count++;
            }
        }
        return count + " " + longest / 1000;
    }
}
