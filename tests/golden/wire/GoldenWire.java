// Prints what Kafka's own classes make of messages, API keys and error codes.
// Run by scripts/generate-wire-golden, which says what the files mean.

import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.AbstractCollection;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.record.internal.BaseRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;

public class GoldenWire {
    /** How the fields of a message are set. */
    enum Filling {
        DEFAULT, FULL, NULL, MANY_0, MANY_1, MANY_2;

        /** Only arrays are set: those at this level have many elements with default fields, those above have one. */
        int level() {
            return ordinal() - MANY_0.ordinal();
        }
    }

    private static final int MANY = 16;

    private final Filling filling;
    private final short version;
    private int count = 0;

    private GoldenWire(Filling filling, short version) {
        this.filling = filling;
        this.version = version;
    }

    public static void main(String[] args) throws Exception {
        Path folder = Path.of(args[0]);
        try (PrintStream out = print(folder.resolve("messages.txt"))) {
            for (String name : Arrays.copyOfRange(args, 1, args.length)) {
                messages(name, out);
            }
        }
        try (PrintStream out = print(folder.resolve("errors.txt"))) {
            for (Errors error : Errors.values()) {
                boolean retriable = error.exception() instanceof RetriableException;
                out.println(error.code() + "\t" + error.name() + "\t" + retriable + "\t" + error.message());
            }
        }
        try (PrintStream out = print(folder.resolve("api_keys.txt"))) {
            for (ApiKeys key : ApiKeys.values()) {
                if (key.latestVersion(false) < key.oldestVersion()) {
                    continue;
                }
                out.print(key.id + "\t" + key.name + "\t" + key.oldestVersion() + "\t" + key.latestVersion(false) + "\t");
                for (short version = key.oldestVersion(); version <= key.latestVersion(false); version++) {
                    out.print(key.requestHeaderVersion(version) + "" + key.responseHeaderVersion(version) + " ");
                }
                out.println();
            }
        }
    }

    private static PrintStream print(Path path) throws Exception {
        return new PrintStream(Files.newOutputStream(path), false, StandardCharsets.UTF_8);
    }

    private static void messages(String name, PrintStream out) throws Exception {
        Class<?> type = type(name);
        ApiMessage any = (ApiMessage) type.getDeclaredConstructor().newInstance();
        for (short version = any.lowestSupportedVersion(); version <= any.highestSupportedVersion(); version++) {
            Set<String> lines = new LinkedHashSet<>();
            for (Filling filling : Filling.values()) {
                Message message = new GoldenWire(filling, version).message(type, 0);
                lines.add(name + " " + version + " " + HexFormat.of().formatHex(write(message, version)));
            }
            lines.forEach(out::println);
        }
    }

    private static Class<?> type(String name) throws ClassNotFoundException {
        String[] places = {
            "org.apache.kafka.common.message." + name + "Data",
            "org.apache.kafka.common.message." + name,
            "org.apache.kafka.coordinator.group.generated." + name,
            "org.apache.kafka.coordinator.transaction.generated." + name,
        };
        for (String place : places) {
            try {
                return Class.forName(place);
            } catch (ClassNotFoundException next) {
                // The next place.
            }
        }
        throw new ClassNotFoundException(name);
    }

    private static byte[] write(Message message, short version) {
        ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    /** Makes a message whose fields are all set, but those that the version lacks and that may not be left out. */
    private Message message(Class<?> type, int depth) throws Exception {
        Message message = (Message) type.getDeclaredConstructor().newInstance();
        if (filling == Filling.DEFAULT) {
            return message;
        }
        List<Method> setters = new ArrayList<>();
        for (Method method : type.getDeclaredMethods()) {
            boolean one = method.getParameterCount() == 1 && method.getReturnType() == type;
            if (one && method.getName().startsWith("set") && !method.isBridge()) {
                setters.add(method);
            }
        }
        setters.sort(Comparator.comparing(Method::getName));
        for (Method setter : setters) {
            if (filling.level() >= 0 && !Collection.class.isAssignableFrom(setter.getParameterTypes()[0])) {
                continue;
            }
            Object before = getter(type, setter).invoke(message);
            boolean flag = setter.getParameterTypes()[0] == boolean.class;
            Object value = flag ? !(boolean) before : value(setter.getGenericParameterTypes()[0], depth);
            if (filling == Filling.NULL && !setter.getParameterTypes()[0].isPrimitive() && set(message, setter, null)) {
                continue;
            }
            if (!set(message, setter, value)) {
                setter.invoke(message, before);
            }
        }
        return message;
    }

    private static Method getter(Class<?> type, Method setter) throws Exception {
        String name = setter.getName().substring(3);
        return type.getMethod(name.substring(0, 1).toLowerCase() + name.substring(1));
    }

    /** Sets a field; false if Kafka then refuses to write the message in this version. */
    private boolean set(Message message, Method setter, Object value) throws Exception {
        try {
            setter.invoke(message, value);
            write(message, version);
            // A collection takes its elements by hash, which a null id would break.
            message.hashCode();
            return true;
        } catch (InvocationTargetException | RuntimeException refused) {
            return false;
        }
    }

    private Object value(Type type, int depth) throws Exception {
        int number = ++count;
        if (type == byte.class || type == Byte.class) {
            return (byte) (number + 64);
        } else if (type == short.class || type == Short.class) {
            return (short) (number * 257);
        } else if (type == int.class || type == Integer.class) {
            // Also the type of uint16, which must not be over 65535.
            return number % 3 == 0 ? -number : number * 331 % 65536;
        } else if (type == long.class || type == Long.class) {
            return number * 0x0102030405060708L;
        } else if (type == double.class || type == Double.class) {
            return number / 7.0;
        } else if (type == String.class) {
            return number % 4 == 0 ? "s\u00e9\u6c34\ud83d\ude80" + number : "s" + number;
        } else if (type == Uuid.class) {
            return new Uuid(0x1111000000000000L + number, 0x2222000000000000L - number);
        } else if (type == byte[].class) {
            return new byte[] {1, 2, (byte) number};
        } else if (type == ByteBuffer.class) {
            return ByteBuffer.wrap(new byte[] {3, 4, (byte) number});
        } else if (type == BaseRecords.class) {
            SimpleRecord record = new SimpleRecord(1_700_000_000_000L + number, ("record" + number).getBytes());
            return MemoryRecords.withRecords(Compression.NONE, record);
        } else if (type instanceof ParameterizedType list) {
            List<Object> values = new ArrayList<>();
            fill(values, list.getActualTypeArguments()[0], depth);
            return values;
        } else if (AbstractCollection.class.isAssignableFrom((Class<?>) type)) {
            @SuppressWarnings("unchecked")
            Collection<Object> values = (Collection<Object>) ((Class<?>) type).getDeclaredConstructor().newInstance();
            ParameterizedType parent = (ParameterizedType) ((Class<?>) type).getGenericSuperclass();
            fill(values, parent.getActualTypeArguments()[0], depth);
            return values;
        }
        return message((Class<?>) type, depth + 1);
    }

    private void fill(Collection<Object> values, Type element, int depth) throws Exception {
        if (filling.level() >= 0) {
            for (int index = 0; index < (filling.level() == depth ? MANY : 1); index++) {
                values.add(filling.level() == depth ? simple(element) : value(element, depth));
            }
            return;
        }
        // Inner arrays have one or two elements by turns, so that no array hides behind another's length.
        int size = depth == 0 ? 2 : 1 + count % 2;
        for (int index = 0; index < size; index++) {
            values.add(value(element, depth));
        }
    }

    private static Object simple(Type type) throws Exception {
        if (type == Byte.class) {
            return (byte) 0;
        } else if (type == Short.class) {
            return (short) 0;
        } else if (type == Integer.class) {
            return 0;
        } else if (type == Long.class) {
            return 0L;
        } else if (type == String.class) {
            return "";
        } else if (type == Uuid.class) {
            return Uuid.ZERO_UUID;
        } else if (type == byte[].class) {
            return new byte[0];
        }
        return ((Class<?>) type).getDeclaredConstructor().newInstance();
    }
}
