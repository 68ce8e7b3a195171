import java.sql.SQLException;
import java.util.Objects;

/** Checks of a suite: each prints `ok <name>` or `not ok <name>: <why>`. */
final class Check {
    interface Body {
        void run() throws Exception;
    }

    private static int failed;

    private Check() {}

    /** Runs one check. Later ones go on whatever became of it. */
    static void check(String name, Body body) {
        long start = System.nanoTime();
        try {
            body.run();
            System.out.println("ok " + name);
        } catch (Throwable e) {
            failed++;
            String state = e instanceof SQLException ? ((SQLException) e).getSQLState() + " " : "";
            System.out.println(("not ok " + name + ": " + state + e.getMessage()).replaceAll("\\s+", " ") + " (line " + line(e) + ")");
            if (System.getenv("VERBOSE") != null) {
                e.printStackTrace();
            }
        }
        if (System.getenv("VERBOSE") != null) {
            System.err.println((System.nanoTime() - start) / 1_000_000 + " ms " + name);
        }
    }

    private static int line(Throwable e) {
        for (StackTraceElement f : e.getStackTrace()) {
            if (f.getClassName().startsWith("Jdbc")) {
                return f.getLineNumber();
            }
        }
        return 0;
    }

    static void same(Object got, Object want) {
        if (!Objects.deepEquals(got, want)) {
            throw new AssertionError("got " + got + ", want " + want);
        }
    }

    /** Expects the SQLSTATE. */
    static SQLException fails(String state, Body body) throws Exception {
        try {
            body.run();
        } catch (SQLException e) {
            if (!state.equals(e.getSQLState())) {
                throw e;
            }
            return e;
        }
        throw new AssertionError("no error, want " + state);
    }

    /** Repeats what may fail while a server comes back. */
    static void eventually(Body body) throws Exception {
        long end = System.currentTimeMillis() + 30_000;
        for (;;) {
            try {
                body.run();
                return;
            } catch (Exception e) {
                if (System.currentTimeMillis() > end) {
                    throw e;
                }
                Thread.sleep(200);
            }
        }
    }

    static void shell(String variable, String arguments) throws Exception {
        String command = System.getenv().getOrDefault(variable, "true") + " " + arguments;
        Process p = new ProcessBuilder("sh", "-c", command).redirectOutput(ProcessBuilder.Redirect.DISCARD).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        same(p.waitFor(), 0);
    }

    static void done() {
        System.exit(failed == 0 ? 0 : 1);
    }
}
