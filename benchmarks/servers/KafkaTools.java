// Apache Kafka's own performance tools, one after another in one JVM, so that they are warm. In source launch mode
// with Kafka's jars: a line on stdin is a tool's class and its arguments, with tabs between; the answer is one line:
// the last one that the tool printed.
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

public class KafkaTools {
    public static void main(String[] none) throws Exception {
        PrintStream told = System.out;
        Exit.setExitProcedure((code, message) -> {
            throw new IllegalStateException("it would have ended with " + code + ": " + message);
        });
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        told.println("ready");
        for (String order = orders.readLine(); order != null; order = orders.readLine()) {
            String[] words = order.split("\t");
            Method tool = Class.forName(words[0]).getMethod("main", String[].class);
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            System.setOut(new PrintStream(printed, true));
            tool.invoke(null, (Object) Arrays.copyOfRange(words, 1, words.length));
            String[] lines = printed.toString().strip().split("\n");
            told.println(lines[lines.length - 1]);
        }
        System.exit(0);
    }
}
