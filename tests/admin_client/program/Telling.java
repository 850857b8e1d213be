import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.common.errors.TimeoutException;

/** What a call gave, one line per fact: what it is about, a tab, and the fact without anything that chance decides. */
final class Telling {
    private static final String CLASSES_OF_KAFKA = "org.apache.kafka.";
    /** Of a topic, a folder, a cluster: 16 bytes in base 64, whose last letter has only two bits to tell. */
    private static final String ANY_ID = "(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{21}[AQgw](?![A-Za-z0-9_-])";
    private final String bootstrap;

    Telling(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    void ask(String about, Callable<?> call) {
        Object given;
        try {
            given = call.call();
        } catch (Exception failure) {
            given = failure;
        }
        tell(about, given);
    }

    private void tell(String about, Object fact) {
        if (fact instanceof Future<?> future) {
            tell(about, outcome(future));
        } else if (fact instanceof Map<?, ?> map && !map.isEmpty()) {
            Map<String, Object> sorted = new TreeMap<>();
            map.forEach((key, value) -> sorted.put(text(key), value));
            sorted.forEach((key, value) -> tell(about + "[" + key + "]", value));
        } else if (fact instanceof Config config) {
            config.entries().stream().sorted(Comparator.comparing(ConfigEntry::name))
                .forEach(entry -> say(about + "[" + entry.name() + "]", text(entry)));
        } else if (fact != null && fact.getClass().getName().startsWith(CLASSES_OF_KAFKA + "clients.admin.")
                && fact.getClass().getSimpleName().endsWith("Result")) {
            questions(fact).forEach(method -> tell(about + "." + method.getName(), answer(fact, method)));
        } else {
            say(about, text(fact));
        }
    }

    private static Object outcome(Future<?> future) {
        try {
            return future.get(30, TimeUnit.SECONDS);
        } catch (ExecutionException failure) {
            return failure.getCause();
        } catch (InterruptedException | java.util.concurrent.TimeoutException failure) {
            return failure;
        }
    }

    /** Everything public that takes nothing and gives something, in the order of the alphabet. */
    private static List<Method> questions(Object of) {
        return Arrays.stream(of.getClass().getMethods())
            .filter(method -> method.getParameterCount() == 0 && method.getReturnType() != void.class)
            .filter(method -> method.getDeclaringClass() != Object.class && !Modifier.isStatic(method.getModifiers()))
            .filter(method -> !List.of("hashCode", "toString").contains(method.getName()))
            .sorted(Comparator.comparing(Method::getName)).toList();
    }

    private static Object answer(Object of, Method question) {
        try {
            question.setAccessible(true);
            return question.invoke(of);
        } catch (InvocationTargetException failure) {
            return failure.getCause();
        } catch (IllegalAccessException failure) {
            return failure;
        }
    }

    private String text(Object fact) {
        if (fact instanceof Throwable failure) {
            return failure(failure);
        }
        if (fact instanceof Optional<?> optional) {
            return optional.map(this::text).orElse("nothing");
        }
        if (fact instanceof Collection<?> many) {
            List<String> texts = new ArrayList<>();
            many.forEach(one -> texts.add(text(one)));
            texts.sort(null);
            return texts.toString();
        }
        if (fact instanceof byte[] bytes) {
            return Arrays.toString(bytes);
        }
        if (fact instanceof ConfigEntry entry) {
            return entry.value() + " " + entry.source() + " " + entry.type() + (entry.isReadOnly() ? " fixed" : "")
                + (entry.isSensitive() ? " secret" : "") + text(entry.synonyms());
        }
        String said = String.valueOf(fact);
        if (fact != null && said.matches(".*@[0-9a-f]{4,8}") && fact.getClass().getName().startsWith(CLASSES_OF_KAFKA)) {
            List<String> parts = new ArrayList<>();
            questions(fact).forEach(part -> parts.add(part.getName() + "=" + text(answer(fact, part))));
            return fact.getClass().getSimpleName() + parts;
        }
        return said;
    }

    private String failure(Throwable failure) {
        Throwable inner = failure instanceof CompletionException && failure.getCause() != null ? failure.getCause() : failure;
        String name = inner.getClass().getSimpleName();
        if (inner instanceof TimeoutException) {
            return name; // How long somebody waited, and for what at that moment, is chance.
        }
        return name + ": " + inner.getMessage() + (inner.getCause() == null ? "" : " because of " + inner.getCause().getClass().getSimpleName());
    }

    private void say(String about, String fact) {
        String plain = fact.replace(bootstrap, "BROKER")
            .replace("port=" + bootstrap.substring(bootstrap.lastIndexOf(':') + 1), "port=PORT")
            .replaceAll("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID")
            .replaceAll(ANY_ID, "ID")
            .replaceAll("(?<!\\d)1[789]\\d{11}(?!\\d)", "TIME")
            .replaceAll("((total|usable)Bytes=(OptionalLong\\[)?)\\d+", "$1N")
            .replaceAll("\\s*\\R\\s*", " | ");
        System.out.println(about.replaceAll(ANY_ID, "ID") + "\t" + plain);
    }
}
