/** Bounds of what a unit may count, so that its summary stays small; more names are refused. */
export const stepsMax = 100;
export const metricsMax = 100;
export const checksMax = 100;
/** Names of one kind in a merged summary. */
export const mergedNamesMax = 1_000;
/** Distinct errors that are listed; all are counted. */
export const errorsMax = 100;
/** Failed items of one workflow that are listed; all are counted. */
export const failuresMax = 1_000;
export const nameBytesMax = 100;
/** Length of an error text in characters; encoded at most three times as many bytes. */
export const errorBytesMax = 300;
export const stepNamePattern = /^[A-Za-z][\w.-]{0,62}$/;
