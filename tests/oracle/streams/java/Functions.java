import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;

/** The functions that a case may name; functions.py has the same. All take values of any type, and null. */
final class Functions {
    private static final int LONGEST = 40;

    private Functions() {}

    static String text(Object value) {
        if (value instanceof Windowed) {
            Windowed<?> windowed = (Windowed<?>) value;
            return "[" + text(windowed.key()) + "@" + windowed.window().start() + "/" + windowed.window().end() + "]";
        }
        return String.valueOf(value);
    }

    static String text(Headers headers) {
        List<String> texts = new ArrayList<>();
        headers.forEach(header -> texts.add(header.key() + "=" + Oracle.hex(header.value())));
        return texts.toString();
    }

    static long number(Object value) {
        if (value == null) {
            return 0;
        }
        if (value instanceof Long) {
            return (Long) value;
        }
        if (value instanceof Windowed) {
            Windowed<?> windowed = (Windowed<?>) value;
            return number(windowed.key()) + windowed.window().start();
        }
        return ((String) value).chars().sum();
    }

    private static boolean isOdd(Object value) {
        return Math.floorMod(number(value), 2) == 1;
    }

    private static boolean isThird(long number) {
        return Math.floorMod(number, 3) == 0;
    }

    private static String tail(String text) {
        return text.substring(Math.max(0, text.length() - LONGEST));
    }

    private static String joined(Object left, String between, Object right) {
        return tail((left == null ? "" : text(left)) + between + text(right));
    }

    static Object value(String name, Object key, Object value) {
        switch (name) {
            case "same": return value;
            case "upper": return text(value).toUpperCase();
            case "exclaim": return tail(text(value) + "!");
            case "text": return text(value);
            case "labelled": return tail(text(key) + ":" + text(value));
            case "length": return (long) text(value).length();
            case "number": return number(value);
            case "double": return Math.floorMod(number(value) * 2, 1_000_003L);
            case "vanish": return isOdd(value) ? null : value;
            case "fail": throw new IllegalStateException("asked to fail");
            case "fail_on_x":
                if (text(value).contains("x")) {
                    throw new IllegalStateException("asked to fail");
                }
                return value;
            default: throw new IllegalArgumentException(name);
        }
    }

    static Object key(String name, Object key, Object value) {
        switch (name) {
            case "same": return key;
            case "first": return value == null || text(value).isEmpty() ? null : text(value).substring(0, 1);
            case "text": return text(key);
            case "value_text": return text(value);
            case "vanish": return isOdd(value) ? null : text(key);
            case "length": return (long) text(value).length();
            case "bucket": return Math.floorMod(number(value), 3L);
            default: throw new IllegalArgumentException(name);
        }
    }

    static boolean test(String name, Object key, Object value) {
        switch (name) {
            case "all": return true;
            case "none": return false;
            case "even": return !isOdd(value);
            case "odd_key": return isOdd(key);
            case "has_a": return text(value).contains("a");
            case "present": return value != null;
            case "keyed": return key != null;
            default: throw new IllegalArgumentException(name);
        }
    }

    static List<Object> values(String name, String count, Object key, Object value) {
        long times = count.equals("third") ? Math.floorMod(number(value), 3L) : Long.parseLong(count);
        List<Object> made = new ArrayList<>();
        Object next = value;
        for (long each = 0; each < times; each++) {
            next = value(name, key, next);
            made.add(next);
        }
        return made;
    }

    static List<KeyValue<Object, Object>> pairs(String toKey, String toValue, String count, Object key, Object value) {
        List<KeyValue<Object, Object>> made = new ArrayList<>();
        for (Object each : values(toValue, count, key, value)) {
            made.add(KeyValue.pair(key(toKey, key, each), each));
        }
        return made;
    }

    static Object initial(String name) {
        switch (name) {
            case "zero": return 0L;
            case "empty": return "";
            case "nothing": return null;
            default: throw new IllegalArgumentException(name);
        }
    }

    static Object aggregate(String name, Object key, Object value, Object aggregate) {
        switch (name) {
            case "sum": return number(aggregate) + number(value);
            case "minus": return number(aggregate) - number(value);
            case "concat": return joined(aggregate, "", value);
            case "strike": return joined(aggregate, "-", value);
            case "labelled": return joined(aggregate, text(key) + "=", value);
            case "vanish": return isThird(number(value)) ? null : joined(aggregate, "", value);
            default: throw new IllegalArgumentException(name);
        }
    }

    static Object reduce(String name, Object left, Object right) {
        switch (name) {
            case "sum": return number(left) + number(right);
            case "minus": return number(left) - number(right);
            case "concat": return joined(left, "", right);
            case "strike": return joined(left, "-", right);
            case "last": return right;
            case "vanish": return isThird(number(left) + number(right)) ? null : right;
            default: throw new IllegalArgumentException(name);
        }
    }

    static Object merge(String name, Object key, Object left, Object right) {
        return name.equals("sum") ? (Object) (number(left) + number(right)) : joined(left, "|", right);
    }

    static Object join(String name, Object key, Object left, Object right) {
        switch (name) {
            case "pair": return tail(text(left) + "+" + text(right));
            case "sum": return number(left) + number(right);
            case "labelled": return tail(text(key) + ":" + text(left) + "+" + text(right));
            case "vanish": return isThird(number(left) + number(right)) ? null : tail(text(left) + "+" + text(right));
            default: throw new IllegalArgumentException(name);
        }
    }
}
