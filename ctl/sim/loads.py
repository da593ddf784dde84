LOADS = {"1.0": {"mit_s": 13.7, "local_share": .9975}, "1.5": {"mit_s": 13.187, "local_share": .99533}, **{f"0.7/{p/10}": {"mit_s": 10.} for p in range(1,11)}}
