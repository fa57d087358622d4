/** How much a unit may count, so that its summary stays small: more names than this are refused. */

export const stepsMax = 100;
export const metricsMax = 100;
export const checksMax = 100;
/** Of one kind, over all units together. */
export const mergedNamesMax = 1_000;
/** Different errors that are shown; all are counted. */
export const errorsMax = 20;
export const nameBytesMax = 100;
export const errorBytesMax = 500;
export const stepNamePattern = /^[A-Za-z][\w.-]{0,62}$/;
