import java.nio.file.Files;
import java.nio.file.Paths;
import java.sql.Connection;
import java.sql.Statement;
import java.util.Arrays;
import org.postgresql.ds.PGSimpleDataSource;
import org.springframework.dao.DuplicateKeyException;

/** Demo migrate FILE … runs files of SQL; Demo alone is a day of three tenants, a line for each step. */
public final class Demo {
    private Demo() {}

    public static void main(String[] args) throws Exception {
        PGSimpleDataSource source = new PGSimpleDataSource();
        source.setUrl("jdbc:postgresql://" + env("PGHOST", "127.0.0.1") + ":" + env("PGPORT", "6432") + "/" + env("PGDATABASE", "app"));
        source.setUser(env("PGUSER", "postgres"));
        source.setPassword(env("PGPASSWORD", ""));
        source.setSslMode(env("PGSSLMODE", "prefer"));
        if (System.getenv("PGSSLROOTCERT") != null) {
            source.setSslRootCert(System.getenv("PGSSLROOTCERT"));
        }
        if (args.length > 1 && args[0].equals("migrate")) {
            try (Connection c = source.getConnection(); Statement s = c.createStatement()) {
                for (int i = 1; i < args.length; i++) {
                    s.execute(new String(Files.readAllBytes(Paths.get(args[i])), "UTF-8"));
                }
            }
            return;
        }
        day(new Tracker(source));
    }

    private static void day(Tracker app) {
        long acme = app.signUp("Acme", "ada@acme.example", "Ada");
        long bolt = app.signUp("Bolt", "bob@bolt.example", "Bob");
        long cargo = app.signUp("Cargo", "cyd@cargo.example", "Cyd");
        say("sign up", "three tenants");
        try {
            app.signUp("Another Acme", "ada@acme.example", "Ada");
        } catch (DuplicateKeyException e) {
            say("an e-mail is taken", e.getMostSpecificCause().getMessage().split("\n")[0]);
        }
        app.startProject(acme, "Roof", Arrays.asList("tiles", "beams", "gutter"));
        app.startProject(bolt, "Wall", Arrays.asList("bricks", "mortar"));
        app.startProject(cargo, "Gate", Arrays.asList("hinges"));
        say("open tasks", app.openTasks(acme));
        app.work(acme, 2.5);
        say("one is done", app.openTasks(acme));
        say("report over all tenants", app.report());
        say("login by e-mail", app.login("cyd@cargo.example"));
        say("hours of all tenants", app.raiseHours());
        say("rolled back", app.notReally(acme, cargo));
        app.leave(bolt);
        say("a tenant has left", app.report());
    }

    private static void say(String what, Object answer) {
        System.out.println("ok " + what + ": " + answer);
    }

    private static String env(String name, String otherwise) {
        String value = System.getenv(name);
        return value == null ? otherwise : value;
    }
}
