import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Asks Kafka's StandardAuthorizer. Each line of standard input is words separated by tabs:
 * "new SUPER_USERS ALLOW_EVERYONE" begins with an authorizer without ACLs, "acl TYPE NAME PATTERN
 * PRINCIPAL HOST OPERATION PERMISSION" adds one, "text" with the same words prints its text, "ask
 * PRINCIPAL HOST OPERATION TYPE NAME" and "any PRINCIPAL HOST OPERATION TYPE" print the answers.
 */
public class Acls {
    record Client(KafkaPrincipal principal, InetAddress clientAddress)
        implements AuthorizableRequestContext {
        public String listenerName() {
            return "PLAINTEXT";
        }

        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        public int requestType() {
            return 0;
        }

        public int requestVersion() {
            return 0;
        }

        public String clientId() {
            return "";
        }

        public int correlationId() {
            return 0;
        }
    }

    static StandardAuthorizer begin(String superUsers, String allowEveryone) {
        StandardAuthorizer made = new StandardAuthorizer();
        Map<String, Object> configs = new HashMap<>();
        configs.put("super.users", superUsers);
        configs.put("allow.everyone.if.no.acl.found", allowEveryone);
        configs.put("node.id", "1");
        made.configure(configs);
        made.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        made.completeInitialLoad();
        return made;
    }

    static StandardAcl acl(String[] words) {
        return new StandardAcl(
            ResourceType.valueOf(words[1]), words[2], PatternType.valueOf(words[3]), words[4],
            words[5], AclOperation.valueOf(words[6]), AclPermissionType.valueOf(words[7]));
    }

    static Client client(String[] words) throws Exception {
        return new Client(SecurityUtils.parseKafkaPrincipal(words[1]),
            InetAddress.getByName(words[2]));
    }

    static AuthorizationResult ask(StandardAuthorizer of, String[] words) throws Exception {
        ResourcePattern resource = new ResourcePattern(
            ResourceType.valueOf(words[4]), words[5], PatternType.LITERAL);
        AclOperation operation = AclOperation.valueOf(words[3]);
        return of.authorize(client(words),
            List.of(new Action(operation, resource, 1, false, false))).get(0);
    }

    static AuthorizationResult any(StandardAuthorizer of, String[] words) throws Exception {
        return of.authorizeByResourceType(client(words), AclOperation.valueOf(words[3]),
            ResourceType.valueOf(words[4]));
    }

    public static void main(String[] arguments) throws Exception {
        StandardAuthorizer authorizer = begin("", "false");
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder answers = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "new" -> authorizer = begin(words[1], words[2]);
                case "acl" -> authorizer.addAcl(Uuid.randomUuid(), acl(words));
                case "text" -> answers.append(acl(words)).append('\n');
                case "ask" -> answers.append(ask(authorizer, words)).append('\n');
                case "any" -> answers.append(any(authorizer, words)).append('\n');
                default -> throw new IllegalArgumentException(line);
            }
        }
        System.out.print(answers);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
