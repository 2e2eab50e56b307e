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

/** Said of a key that stands in a manifest because somebody took the copy that the older jobman kept of it. */
export const writtenByOlder =
  'was written by an older jobman into its copy of the manifest; remove it, jobman keeps its own';
