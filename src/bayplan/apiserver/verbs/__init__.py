"""The verbs, one file each: functions from a `Call` to a `Response`. They work for every kind alike."""
