import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

/**
 * Kafka's command line tools one after the other in one virtual machine, which saves the seconds that each takes to start.
 * A line in is a JSON list: the class and its arguments. A line out is what it said, and the exit code that it asked for.
 */
public class Tools {
    private static final class Left extends Error {
        Left() {
            super("left", null, false, false);
        }
    }

    private static Integer code;

    public static void main(String[] none) throws Exception {
        Exit.setExitProcedure((status, message) -> leave(status));
        Exit.setHaltProcedure((status, message) -> leave(status));
        ObjectMapper json = new ObjectMapper();
        PrintStream answers = System.out;
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = questions.readLine()) != null; ) {
            String[] words = json.readValue(line, String[].class);
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            PrintStream page = new PrintStream(said, true);
            System.setOut(page);
            System.setErr(page);
            code = null;
            try {
                Object rest = Arrays.copyOfRange(words, 1, words.length);
                Class.forName(words[0]).getMethod("main", String[].class).invoke(null, rest);
            } catch (InvocationTargetException failed) {
                if (code == null) {
                    code = 1;
                    failed.getCause().printStackTrace(page);
                }
            }
            answers.println(json.writeValueAsString(Map.of("code", code == null ? 0 : code, "said", said.toString())));
        }
    }

    private static void leave(int status) {
        if (code == null) code = status;
        throw new Left();
    }
}
