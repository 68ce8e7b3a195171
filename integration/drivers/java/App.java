import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** The application's rows. Customer i of 20 has i mod 4 orders, order k of them 1 + k items. */
final class App {
    static final String[] STATUS = {"new", "paid", "shipped"};
    // The unique email gets a lookup by itself.
    static final String TABLES = "products=reference customers=id orders=customer_id items=customer_id users=id samples=id";

    record Order(int customer, String status, BigDecimal total) {}

    record Item(int customer, int order, int product, int quantity, BigDecimal price) {}

    static final List<Order> orders = new ArrayList<>();
    static final List<Item> items = new ArrayList<>();
    static BigDecimal total = BigDecimal.ZERO;

    static {
        for (int c = 1; c <= 20; c++) {
            for (int k = 0; k < c % 4; k++) {
                BigDecimal sum = BigDecimal.ZERO;
                for (int n = 0; n <= k; n++) {
                    int product = (c + n) % 10 + 1;
                    items.add(new Item(c, orders.size(), product, n + 1, price(product)));
                    sum = sum.add(price(product).multiply(BigDecimal.valueOf(n + 1)));
                }
                orders.add(new Order(c, STATUS[k], sum));
                total = total.add(sum);
            }
        }
    }

    private App() {}

    static BigDecimal price(int product) {
        return new BigDecimal(product + ".50");
    }

    static String schema() throws Exception {
        return Files.readString(Path.of("../schema.sql"));
    }
}
