// Runs the cases of the Java client suite: Suite HOST:PORT[,HOST:PORT] [pattern of case names ...]
package clients;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.regex.Pattern;

public final class Suite {
    interface Body {
        void run() throws Exception;
    }

    record Case(String name, Body body) {}

    private final List<Case> cases = new ArrayList<>();

    void add(String name, Body body) {
        cases.add(new Case(name, body));
    }

    public static void main(String[] args) throws Exception {
        String bootstrap = args.length > 0 ? args[0] : System.getenv("BOOTSTRAP");
        if (bootstrap == null) {
            System.err.println("usage: Suite HOST:PORT[,HOST:PORT] [pattern of case names ...]");
            System.exit(2);
        }
        Suite suite = new Suite();
        int failed;
        try (Session session = new Session(bootstrap)) {
            new ProduceCases(session).addTo(suite);
            new AdminCases(session).addTo(suite);
            new TransactionCases(session).addTo(suite);
            failed = suite.run(List.of(args).subList(Math.min(1, args.length), args.length));
        }
        System.exit(failed);
    }

    /** Returns the exit code: 0 when at least one case ran and none failed. */
    private int run(List<String> patterns) {
        int passed = 0;
        int failed = 0;
        for (Case one : cases) {
            if (!patterns.isEmpty() && patterns.stream().noneMatch(p -> Pattern.compile(p).matcher(one.name).find())) {
                continue;
            }
            try {
                one.body.run();
                passed++;
                System.out.println("ok " + one.name);
            } catch (Throwable error) {
                failed++;
                Throwable cause = error instanceof ExecutionException && error.getCause() != null ? error.getCause() : error;
                System.out.println("FAIL " + one.name + " " + cause.toString().replaceAll("\\s+", " "));
            }
        }
        System.out.println("java: " + passed + " passed, " + failed + " failed");
        return failed > 0 || passed == 0 ? 1 : 0;
    }

    static String unique(String prefix) {
        return prefix + "-" + UUID.randomUUID().toString().substring(0, 13);
    }

    static void equal(Object got, Object want, String what) {
        if (!Objects.deepEquals(got, want)) {
            throw new AssertionError(what + ": got " + shortened(got) + ", want " + shortened(want));
        }
    }

    static void check(boolean condition, String what) {
        if (!condition) {
            throw new AssertionError(what);
        }
    }

    /** The action must fail with the class wanted, alone or as the cause. */
    static void failsWith(Collection<Class<? extends Throwable>> wanted, Body action) throws Exception {
        try {
            action.run();
        } catch (Exception error) {
            for (Throwable at = error; at != null; at = at.getCause()) {
                if (wanted.contains(at.getClass())) {
                    return;
                }
            }
            throw new AssertionError("failed with " + error + ", want " + wanted);
        }
        throw new AssertionError("did not fail, want " + wanted);
    }

    /** How many brokers the caller says there are, or 0. */
    static int expectedBrokers() {
        return Integer.parseInt(Map.copyOf(System.getenv()).getOrDefault("EXPECT_BROKERS", "0"));
    }

    private static String shortened(Object value) {
        String text = value instanceof byte[] bytes ? bytes.length + " bytes" : String.valueOf(value);
        return text.length() > 200 ? text.substring(0, 200) + "..." : text;
    }
}
