import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main methods of Kafka's tools in one JVM, one after another, so that each costs no JVM of its own.
 *
 * <p>A command is a line: seconds it may take, class, standard input, arguments; all but the first in Base64. Its
 * answer is a line: exit status (-1: it did not end in time), standard output and standard error in Base64.
 */
public class ToolShell {
    private static final class Ended extends Error {
        Ended() {
            super(null, null, false, false);
        }
    }

    /** Ends a tool that called exit: in a JVM of its own, exit would not have returned. */
    private static final class UntilExit extends FilterOutputStream {
        UntilExit(OutputStream out) {
            super(out);
        }

        @Override
        public void write(int one) throws IOException {
            if (Thread.currentThread() != ended) {
                out.write(one);
            }
        }
    }

    private static final PrintStream ANSWERS = System.out;
    private static final Map<Field, Object> FIRST_VALUES = new HashMap<>();
    private static final List<Runnable> HOOKS = new ArrayList<>();
    private static volatile Integer status;
    private static volatile Thread ended;

    public static void main(String[] arguments) throws Exception {
        Exit.Procedure end = (code, message) -> {
            if (message != null) {
                System.err.println(message);
            }
            if (status == null) {
                status = code;
            }
            ended = Thread.currentThread();
            throw new Ended();
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            answer(line.split(" "));
        }
        Runtime.getRuntime().halt(0);
    }

    private static void answer(String[] parts) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        System.setOut(new PrintStream(new UntilExit(out), true));
        System.setErr(new PrintStream(new UntilExit(err), true));
        System.setIn(new ByteArrayInputStream(Base64.getDecoder().decode(parts[2].substring(1))));
        String[] arguments = Arrays.stream(parts).skip(3).map(ToolShell::text).toArray(String[]::new);
        status = null;
        ended = null;
        HOOKS.clear();
        Thread thread = new Thread(() -> call(text(parts[1]), arguments), "tool");
        thread.setDaemon(true);
        thread.start();
        thread.join(Long.parseLong(parts[0]) * 1000);
        int code = thread.isAlive() ? -1 : status == null ? 0 : status;
        ANSWERS.println(code + " =" + encoded(out) + " =" + encoded(err));
        ANSWERS.flush();
    }

    private static void call(String name, String[] arguments) {
        try {
            Class<?> tool = Class.forName(name);
            forget(tool);
            Method main = tool.getMethod("main", String[].class);
            main.invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof Ended)) {
                thrown.getCause().printStackTrace();
                status = 1;
            }
        } catch (ReflectiveOperationException thrown) {
            thrown.printStackTrace();
            status = 1;
        }
        // what a tool does when its JVM ends
        ended = null;
        for (Runnable hook : HOOKS) {
            hook.run();
        }
    }

    /** A tool that counts in static fields finds them as in a JVM of its own. */
    private static void forget(Class<?> tool) throws IllegalAccessException {
        for (Field field : tool.getDeclaredFields()) {
            int modifiers = field.getModifiers();
            if (Modifier.isStatic(modifiers) && !Modifier.isFinal(modifiers) && field.getType().isPrimitive()) {
                field.setAccessible(true);
                FIRST_VALUES.putIfAbsent(field, field.get(null));
                field.set(null, FIRST_VALUES.get(field));
            }
        }
    }

    private static String text(String part) {
        return new String(Base64.getDecoder().decode(part.substring(1)), StandardCharsets.UTF_8);
    }

    private static String encoded(ByteArrayOutputStream bytes) {
        return Base64.getEncoder().encodeToString(bytes.toByteArray());
    }
}
