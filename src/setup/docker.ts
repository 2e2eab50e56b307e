import type { SetupStep } from '../core/model/spec.ts';
import { minute } from '../core/model/time.ts';
import { quote } from '../catalogue/shell.ts';
import { aptFunctions, quotePath, writeFile, createStep } from './script.ts';
import { condaCheck, condaEnsure, condaExec, venvCheck, venvEnsure, venvExec } from './environments.ts';
import type { CondaModule, DockerModule, VariableNames, VenvModule } from './modules.ts';

export function dockerStep(module: DockerModule): SetupStep {
  const image = quote(module.image);
  return createStep({
    name: 'docker',
    check: `${dockerAsMember}image=${image}\nas_member image inspect "$image" >/dev/null 2>&1\n`,
    apply: `${dockerAsMember}${aptFunctions}image=${image}\n${installDocker}`,
    timeoutMs: 60 * minute,
  });
}

// The login that runs the setup began before its user joined the group docker, so it may need sudo.
const dockerAsMember = `as_member() {
  if docker info >/dev/null 2>&1; then docker "$@"; else sudo -n env HOME="$HOME" PATH="$PATH" docker "$@"; fi
}
`;

const installDocker = `if ! command -v docker >/dev/null; then
  lacks='docker is not installed on this host'
  apt_update
  apt_install docker.io || exit 1
  command -v docker >/dev/null || { echo 'Docker cannot be installed on this host.' >&2; exit 1; }
fi
lacks='The Docker daemon does not answer on this host, or this user has no permission to use it'
if ! as_member info >/dev/null 2>&1; then
  sudo -n systemctl start docker
  sudo -n usermod -aG docker "$(id -un)" || exit 1
  if ! reason=$(as_member info 2>&1 >/dev/null); then
    printf '%s\\n' "$reason" >&2
    reason=$(printf '%s\\n' "$reason" | grep . | tail -n 1)
    echo "The Docker daemon does not answer on this host\${reason:+: $reason}" >&2
    exit 1
  fi
fi
case $image in
  gcr.io/* | *.gcr.io/* | *.pkg.dev/*)
    # Google's registries accept the worker's service account.
    if command -v gcloud >/dev/null; then gcloud auth configure-docker "\${image%%/*}" --quiet; fi
    ;;
esac
tries=1
until as_member pull "$image"; do
  [ "$tries" -lt 3 ] || { echo "Docker could not pull the image $image in three tries." >&2; exit 1; }
  tries=$((tries + 1))
  sleep 10
done
`;

/**
 * Runs `script` in a container. The script and its variables are files, which need no shell quotes and are not in the
 * process list. Secrets come through a pipe: they are in no file, and the Docker daemon does not see them.
 */
export function runInContainer(
  module: DockerModule,
  inner: CondaModule | VenvModule | null,
  script: string,
  command: string,
  variables: VariableNames,
): string {
  return `here=$(cd "$(dirname "$0")" && pwd) || exit 1
${joinDockerGroup}
${writeFile('"$here/command"', script)}chmod 755 "$here/command"
${writeFile('"$here/inside"', containerScript(module, inner, command, variables.secret.length > 0))}chmod 644 "$here/inside"
${variablesFile(module.envVars, variables)}
# Remove containers of earlier tries of this job.
job=\${JOBMAN_RUN:-none/\${JOBMAN_JOB_ID:-none}/\${JOBMAN_ATTEMPT:-0}/\${JOBMAN_WORKER:-0}}
job=\${job%/*/*}
for container in $(docker ps --all --quiet --filter "label=jobman-run=$job"); do
  docker rm --force "$container" >/dev/null
done

# The container waits for the end of this pipe, whose other end docker's client holds. When the client ends, even by a kill, the
# container ends itself. The Docker daemon would keep it running.
# Files must exist to be mounted, and the image's user may not be this one.
mkdir -p "$here/bin" && printf '' >>"$here/bin/jobman" && chmod 755 "$here/bin/jobman"
printf '' >>"$here/metrics" && chmod 666 "$here/metrics"
rm -f "$here/line"
mkfifo -m 666 "$here/line" || exit 1
exec 9<>"$here/line"
${variables.secret.length === 0 ? '' : `${exportVariables(`name in wanted`, variables.secret)} >&9\necho ${endOfSecrets} >&9\nunset ${variables.secret.join(' ')}\n`}
exec docker run --rm --init --label "jobman-run=$job" --env TINI_KILL_PROCESS_GROUP=1 \\
  --mount "type=bind,source=$here/command,target=/jobman/command,readonly" \\
  --mount "type=bind,source=$here/inside,target=/jobman/inside,readonly" \\
  --mount "type=bind,source=$here/variables,target=/jobman/variables,readonly" \\
  --mount "type=bind,source=$here/line,target=/jobman/line" \\
  --mount "type=bind,source=$here/metrics,target=/jobman/metrics" \\
  --mount "type=bind,source=$here/bin/jobman,target=/jobman/bin/jobman,readonly" \\
${dockerOptions(module)
  .map((option) => `  ${option} \\\n`)
  .join('')}  ${quote(module.image)} sh /jobman/inside </dev/null
`;
}

export const containerWorkdir = '/jobman/workdir';

function dockerOptions(module: DockerModule): readonly string[] {
  return [
    ...(module.hasWorkdirCopy === true ? [`--volume "\${here%/*}/workdir":${containerWorkdir}`] : []),
    ...module.mounts.map((mount) => `--volume ${volumeArgument(mount)}`),
    ...(module.workdir === null ? [] : [`--workdir ${quotePath(module.workdir)}`]),
    ...module.flags.map(quote),
  ];
}

/** `/a` is the same folder inside; `/a:/b` another; `~/` is the worker's login folder. */
function volumeArgument(mount: string): string {
  const [outside = '', target, ...mode] = mount.split(':');
  const inside = target === undefined ? quotePath(outside) : quote([target, ...mode].join(':'));
  return `${quotePath(outside)}:${inside}`;
}

const joinDockerGroup = `if ! docker info >/dev/null 2>&1; then
  # A login from before its user joined the group docker gets the group this way.
  if [ -z "\${JOBMAN_MEMBER:-}" ] && sg docker -c true 2>/dev/null; then
    export JOBMAN_MEMBER="$0"
    exec sg docker -c 'exec sh "$JOBMAN_MEMBER"'
  fi
  echo 'The Docker daemon does not answer on this host, or this user has no permission to use it.' >&2
  exit 125
fi
unset JOBMAN_MEMBER`;

const endOfSecrets = ':jobman:these:were:the:secrets:';

/** Writes the variables to a file for a shell. `docker.env_vars` come last and win. Secrets are never in the file. */
function variablesFile(envVars: readonly string[], { plain, secret: secrets }: VariableNames): string {
  const names = [...plain, ...envVars.filter((variable) => !variable.includes('='))];
  const moduleExports = envVars.map(exportLine).join('');
  const inherited =
    'name in wanted || name ~ /^(CUDA_VISIBLE_DEVICES|(JOBMAN|TPU|MEGASCALE|LIBTPU|PJRT)_[A-Za-z0-9_]*)$/';
  const notSecret = secrets.map((name) => ` && name != "${name}"`).join('');
  const appendExports = moduleExports === '' ? '' : ` && printf %s ${quote(moduleExports)}`;
  return `( umask 022; { ${exportVariables(`(${inherited})${notSecret}`, names)}${appendExports}; } >"$here/variables" ) || exit 1`;
}

function exportVariables(condition: string, names: readonly string[]): string {
  return `awk 'BEGIN {
  for (at = 1; at < ARGC; at++) wanted[ARGV[at]] = 1
  for (name in ENVIRON) if (${condition}) {
    value = ENVIRON[name]
    gsub(/\\047/, "\\047\\\\\\047\\047", value)
    printf "export %s=\\047%s\\047\\n", name, value
  }
}' ${names.map(quote).join(' ')}`;
}

function containerScript(
  module: DockerModule,
  inner: CondaModule | VenvModule | null,
  command: string,
  hasSecrets: boolean,
): string {
  return `# The pipe to the host. Opened for writing too at first, because a reader alone would wait forever if the host's end is closed.
exec </dev/null 4<>/jobman/line 3</jobman/line 4<&-
${hasSecrets ? readSecretsScript : ''}# When the pipe closes, kill all processes with this run's marker.
(
  trap '' TERM INT HUP QUIT USR1 USR2
  # Only JOBMAN_RUN is read here: a PATH in docker.env_vars may lack the programs that this needs.
  run=$(. /jobman/variables; printf %s "\${JOBMAN_RUN:-none}")
  cat <&3 >/dev/null
  # Repeat until a second search finds none, because the command may just be starting a process.
  for round in 1 2 3 4 5; do
    found=
    # Without -F, because busybox' grep -F stops at the first NUL.
    for process in $(LC_ALL=C grep -lsw -e "JOBMAN_RUN=$run" /proc/[0-9]*/environ); do
      process=\${process#/proc/}
      kill -s KILL "\${process%/environ}" 2>/dev/null && found=yes
    done
    [ "$round" -eq 1 ] || [ -n "$found" ] || break
    sleep 1
  done
) >/dev/null 2>&1 &
exec 3<&-
${hasSecrets ? 'eval "$secrets"\nunset secrets\n' : ''}. /jobman/variables
export JOBMAN_METRICS=/jobman/metrics JOBMAN_MARK=/jobman/bin/jobman PATH="$PATH:/jobman/bin"
${inner === null ? `exec ${command}\n` : innerEnvironment(inner, command)}`;
}

// A shell's `read` takes no byte after its line, so the rest stays for the process that waits for the end of the pipe.
const readSecretsScript = `secrets=
while IFS= read -r line <&3 && [ "$line" != ${endOfSecrets} ]; do
  secrets=$secrets$line'
'
done
unset line
`;

function exportLine(variable: string): string {
  const at = variable.indexOf('=');
  return at === -1 ? '' : `export ${variable.slice(0, at)}=${quote(variable.slice(at + 1))}\n`;
}

/** The environment exists only inside the container; in a mounted folder it is made once. */
function innerEnvironment(inner: CondaModule | VenvModule, command: string): string {
  const [check, ensure, exec] =
    inner.name === 'conda'
      ? [condaCheck(inner), condaEnsure(inner), condaExec(inner, command)]
      : [venvCheck(inner), venvEnsure(inner), venvExec(inner, command)];
  return `if ! ( ${check.trimEnd()}
); then
  (
${ensure}  ) || { echo 'The ${inner.name} environment could not be created in the container.' >&2; exit 1; }
fi
${exec}`;
}
