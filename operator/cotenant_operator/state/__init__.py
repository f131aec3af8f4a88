"""What is there: objects read once into small values, kept by DLJob, and handed to a decision as one value. No I/O."""
