// Apache Kafka's own performance tools, one after another in one warm JVM. In source launch mode with Kafka's jars:
// a line on stdin is a tool's class and its arguments, separated by tabs; the response is the last line that the
// tool prints.
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

public class KafkaTools {
    public static void main(String[] none) throws Exception {
        PrintStream output = System.out;
        Exit.setExitProcedure((code, message) -> {
            throw new IllegalStateException("exit with code " + code + ": " + message);
        });
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        output.println("ready");
        for (String command = commands.readLine(); command != null; command = commands.readLine()) {
            String[] words = command.split("\t");
            Method tool = Class.forName(words[0]).getMethod("main", String[].class);
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            System.setOut(new PrintStream(printed, true));
            tool.invoke(null, (Object) Arrays.copyOfRange(words, 1, words.length));
            String[] lines = printed.toString().strip().split("\n");
            output.println(lines[lines.length - 1]);
        }
        System.exit(0);
    }
}
