package shop;

import java.util.ArrayList;
import java.util.List;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RMap;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.LongCodec;
import org.redisson.client.codec.StringCodec;
import org.redisson.codec.CompositeCodec;
import org.redisson.config.Config;

/**
 * The Java service of the shop: takes payments for orders, as package shop of the examples does in Go, from the same
 * records and under the same locks.
 *
 * <pre>Teller url store ledger locked|unlocked orders...</pre>
 *
 * It says that it is ready, waits for a line, says that it begins, and is told of the payment of all orders at once.
 */
public final class Teller {
    private static final long WATCHDOG = 2_000;
    private static final long WORK = 50;

    private final RedissonClient redisson;
    private final RMap<String, String> store;
    private final RMap<String, Long> ledger;
    private final boolean locked;

    private Teller(RedissonClient redisson, String store, String ledger, boolean locked) {
        this.redisson = redisson;
        this.store = redisson.getMap(store, StringCodec.INSTANCE);
        this.ledger = redisson.getMap(ledger, new CompositeCodec(StringCodec.INSTANCE, LongCodec.INSTANCE));
        this.locked = locked;
    }

    public static void main(String[] args) throws Exception {
        // In a mixed fleet both sides use the same watchdog time: see the README.
        Config config = new Config().setLockWatchdogTimeout(WATCHDOG);
        config.useSingleServer().setAddress(args[0]);
        RedissonClient redisson = Redisson.create(config);
        Teller teller = new Teller(redisson, args[1], args[2], args[3].equals("locked"));
        RLock first = redisson.getLock(args[1] + ":warm"); // the first one takes longer
        first.lock();
        teller.store.get("");
        first.unlock();
        System.out.println("ready");
        System.in.read();
        System.out.println("begins");
        List<Thread> threads = new ArrayList<>();
        for (int i = 4; i < args.length; i++) {
            String order = args[i];
            Thread thread = new Thread(() -> teller.deliver(order));
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        redisson.shutdown();
    }

    private void deliver(String order) {
        try {
            System.out.println("Java: " + (locked ? payLocked(order) : pay(order)));
        } catch (Exception e) {
            System.out.println("Java: order " + order + ": " + e);
        }
    }

    /** Pays under the lock that the Go service takes, too: its key is that of the annotation there. */
    private String payLocked(String order) throws Exception {
        RLock lock = redisson.getLock("order:" + order);
        lock.lock();
        try {
            return pay(order);
        } finally {
            lock.unlock();
        }
    }

    private String pay(String order) throws Exception {
        String record = store.get("order:" + order); // an object in JSON, which has a receipt when it is paid
        if (record.contains("\"receipt\":")) {
            return "order " + order + " is paid already";
        }
        Thread.sleep(WORK); // is the card good, is the address known, ...
        String receipt = order + "/" + ledger.addAndGet(order, 1L);
        store.put("order:" + order, record.substring(0, record.length() - 1) + ",\"receipt\":\"" + receipt + "\"}");
        return "paid order " + order;
    }
}
