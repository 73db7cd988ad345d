import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs one of Kafka's command-line tools as often as it is told to, in one process.
 *
 * <p>Usage: Tool CLASS. Each line of standard input is the arguments of a run, separated by spaces.
 * Prints what the tool prints on either output, and a last line "exit code N".
 */
public class Tool {
    static final class Ended extends Error {
        final int code;

        Ended(int code) {
            this.code = code;
        }
    }

    static int run(Method tool, String[] arguments) throws IllegalAccessException {
        try {
            tool.invoke(null, (Object) arguments);
        } catch (InvocationTargetException error) {
            if (error.getCause() instanceof Ended ended) return ended.code;
            error.getCause().printStackTrace();
            return -1;
        }
        return 0;
    }

    public static void main(String[] arguments) throws Exception {
        Exit.setExitProcedure((code, message) -> {
            throw new Ended(code);
        });
        Method tool = Class.forName(arguments[0]).getMethod("main", String[].class);
        PrintStream out = System.out;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream both = new PrintStream(printed, true);
            System.setOut(both);
            System.setErr(both);
            int code = run(tool, line.split(" "));
            out.print(printed);
            out.println("exit code " + code);
            out.flush();
        }
        Runtime.getRuntime().halt(0);
    }
}
