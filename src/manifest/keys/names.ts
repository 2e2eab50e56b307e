// Names: what several sections call the same.

/** Names of environment variables; those that begin with JOBMAN_ are told to the program by jobman. */
export const environmentName = {
  pattern: /^(?!JOBMAN_)[A-Za-z_][A-Za-z0-9_]*$/,
  rule: "is no name for an environment variable (letters, digits and _; names with JOBMAN_ are jobman's own)",
};

/** The environments that a command may run in; each has a section of its name. */
export const environmentNames = ['docker', 'conda', 'venv'] as const;
/** One of them. */
export type EnvironmentName = (typeof environmentNames)[number];

/** For keys that jobman knows by itself. They are in the copies of manifests that an older jobman kept. */
export const writtenByOlder = 'is written by jobman itself (an older version put it into manifests); remove it';
