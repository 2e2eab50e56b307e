/** The real helm: how to build it, and where the build is stored, outside the checkout. */
import { homedir } from 'node:os';
import { join } from 'node:path';

const version = 'v3.19.0';

/** The path of the build, which includes the version. */
export const helmBinary = join(homedir(), '.cache', 'jobman', `helm-${version}`, 'helm');

/** The argument of `go install`. */
export const helmModule = `helm.sh/helm/v3/cmd/helm@${version}`;
